from .audit import (
    AUDIT as AUDIT,
    Audit as Audit,
    audit_forecast as audit_forecast,
    weighed_outcomes as weighed_outcomes,
)
from .batch import (
    Champion as Champion,
    Scored as Scored,
    compare_sentences as compare_sentences,
    keep_batch as keep_batch,
    last_verdict as last_verdict,
    made_for as made_for,
    unseen_sentences as unseen_sentences,
    what_changed as what_changed,
)
from .committee import joined_models as joined_models, joined_trials as joined_trials, write_trial as write_trial
from .evidence import (
    SEED as SEED,
    fitted_propensity as fitted_propensity,
    list_promises as list_promises,
    load_evidence as load_evidence,
    load_predictions as load_predictions,
    load_propensity as load_propensity,
    unlike_patients as unlike_patients,
)
from .gathering import SUMMARY as SUMMARY, gather as gather
from .label_list import read_list as read_list, write_list as write_list, write_sheet as write_sheet
from .labels import (
    OutcomeFile as OutcomeFile,
    find_labels as find_labels,
    open_or_refuse as open_or_refuse,
    remember_labels as remember_labels,
    remembered_labels as remembered_labels,
)
from .ledger import seal as seal
from .markdown import table as table, validation_page as validation_page
from .pages import (
    choice_page as choice_page,
    evaluation_page as evaluation_page,
    forecast_page as forecast_page,
    matching_page as matching_page,
)
from .prune import DAY_SECONDS as DAY_SECONDS, erase_files as erase_files, prune_stages as prune_stages
from .publish import (
    EARLIER as EARLIER,
    publish_halt as publish_halt,
    publish_index as publish_index,
    write_latest as write_latest,
)
from .recalibration import (
    Recalibrated as Recalibrated,
    label_file as label_file,
    read_outcomes as read_outcomes,
    what_helps as what_helps,
)
from .run import Compared as Compared, Run as Run, Stages as Stages, Trained as Trained, last_run as last_run
from .settings import SWEEP as SWEEP, TransferSettings as TransferSettings
