from .events import (
    RANKED_TAKES as RANKED_TAKES,
    VALUE_TAKES as VALUE_TAKES,
    Events as Events,
    Index as Index,
    Outcome as Outcome,
    Selection as Selection,
    Window as Window,
    require_horizon as require_horizon,
    span_in_days as span_in_days,
)
from .expectations import Expectation as Expectation, suite as suite
from .findings import (
    MEANINGS as MEANINGS,
    About as About,
    Finding as Finding,
    Step as Step,
    Sureness as Sureness,
    Validation as Validation,
    join_validations as join_validations,
)
from .network import (
    Network as Network,
    load_network as load_network,
    parse_site as parse_site,
    parse_table as parse_table,
    suspicions_of as suspicions_of,
)
from .record import (
    Interval as Interval,
    Record as Record,
    Severity as Severity,
    is_number as is_number,
    plain_label as plain_label,
    to_label as to_label,
    to_labels as to_labels,
)
from .site import (
    Batches as Batches,
    Decision as Decision,
    Disclosure as Disclosure,
    Extract as Extract,
    LabelFile as LabelFile,
    Reader as Reader,
    Site as Site,
)
from .table import (
    DEFAULT_SEVERITY as DEFAULT_SEVERITY,
    NUMERIC_TYPES as NUMERIC_TYPES,
    Column as Column,
    Contract as Contract,
    Limits as Limits,
    Role as Role,
    Rule as Rule,
    Subgroup as Subgroup,
    known_labels as known_labels,
)
from .validation import Harmonised as Harmonised, Prepared as Prepared, validate_rows as validate_rows
from .yaml_file import parse_yaml as parse_yaml
