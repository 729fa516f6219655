from .cells import write_patients as write_patients
from .demo import (
    DEMO_ROWS as DEMO_ROWS,
    DEMO_STOPPED as DEMO_STOPPED,
    DEMO_TARGETS as DEMO_TARGETS,
    FULL_ROWS as FULL_ROWS,
    write_demo_network as write_demo_network,
)
from .encode import (
    Encoder as Encoder,
    features_of as features_of,
    learn_encoder as learn_encoder,
    not_recorded as not_recorded,
    persons_of as persons_of,
)
from .families import (
    SHAPES as SHAPES,
    extrapolation as extrapolation,
    extrapolation_risk as extrapolation_risk,
    shaped as shaped,
    toy as toy,
    toy_truth as toy_truth,
)
from .hints import clean as clean, guess_labels as guess_labels, hint_unreadable as hint_unreadable
from .json_schemas import write_json_schemas as write_json_schemas
from .locations import no_such_file as no_such_file, resolve as resolve
from .names import closest as closest, split_words as split_words, title_of as title_of, unit_in as unit_in
from .outcome_proposal import Asked as Asked
from .outcomes import LabelCounts as LabelCounts, read_labels as read_labels, source_outcome as source_outcome
from .preparation import Prepared as Prepared, prepare as prepare, prepare_frame as prepare_frame
from .readers import fingerprint as fingerprint, label_fingerprint as label_fingerprint
from .simulation import Support as Support, simulate as simulate, simulated_cohort as simulated_cohort
from .site_proposal import in_people as in_people, propose_site as propose_site
from .subgroups import subgroups_of as subgroups_of
from .suspicions import compare_extracts as compare_extracts
from .table_proposal import TableProposal as TableProposal, propose_table as propose_table
