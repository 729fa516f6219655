from .censoring import (
    CensoringModel as CensoringModel,
    CensoringSummary as CensoringSummary,
    FollowUp as FollowUp,
    chance_still_followed as chance_still_followed,
    join_summaries as join_summaries,
    observed_share as observed_share,
    observed_to_horizon as observed_to_horizon,
    weigh_outcomes as weigh_outcomes,
)
from .comparison import (
    BETWEEN as BETWEEN,
    compare_extracts as compare_extracts,
    compare_sources as compare_sources,
)
from .encode import (
    Encoder as Encoder,
    features_of as features_of,
    learn_encoder as learn_encoder,
    not_recorded as not_recorded,
    persons_of as persons_of,
    subgroups_of as subgroups_of,
    unlike_missing as unlike_missing,
)
from .event_proposal import (
    EventsAsked as EventsAsked,
    propose_event_site as propose_event_site,
    propose_event_table as propose_event_table,
)
from .hints import clean as clean, guess_labels as guess_labels, hint_unreadable as hint_unreadable
from .json_schemas import make_json_schemas as make_json_schemas, write_json_schemas as write_json_schemas
from .locations import no_such_file as no_such_file, resolve as resolve
from .names import closest as closest, split_words as split_words, title_of as title_of, unit_in as unit_in
from .outcome_proposal import Asked as Asked
from .outcomes import (
    LabelCounts as LabelCounts,
    Labels as Labels,
    follow_up_of as follow_up_of,
    read_labels as read_labels,
    source_outcome as source_outcome,
)
from .preparation import (
    harmonise as harmonise,
    prepare as prepare,
    prepare_frame as prepare_frame,
)
from .readers import (
    fingerprint as fingerprint,
    kinds as kinds,
    label_fingerprint as label_fingerprint,
    open_events as open_events,
    read_batch as read_batch,
    read_extract as read_extract,
    read_file as read_file,
)
from .simulation import (
    DEMO_ROWS as DEMO_ROWS,
    DEMO_STOPPED as DEMO_STOPPED,
    DEMO_TARGETS as DEMO_TARGETS,
    DEMO_TEACHERS as DEMO_TEACHERS,
    FULL_ROWS as FULL_ROWS,
    Support as Support,
    demo_patients as demo_patients,
    simulate as simulate,
    simulated_cohort as simulated_cohort,
    write_demo_network as write_demo_network,
)
from .site_proposal import in_people as in_people, propose_site as propose_site
from .table_proposal import (
    TableProposal as TableProposal,
    likely_outcomes as likely_outcomes,
    propose_table as propose_table,
)
from .units import alternatives as alternatives, convert as convert, factor as factor
from .values import (
    as_labels as as_labels,
    as_numbers as as_numbers,
    as_text as as_text,
    damaged as damaged,
    neutralise as neutralise,
    restore as restore,
    with_text_ids as with_text_ids,
    write_patients as write_patients,
)
