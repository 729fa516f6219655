from .batches import (
    FEWEST as FEWEST,
    Batch as Batch,
    drawable as drawable,
    feature_differences as feature_differences,
    remember as remember,
)
from .comparison import FEWEST_TO_COMPARE as FEWEST_TO_COMPARE, compare_batch as compare_batch
from .kept_copy import KeptCopy as KeptCopy
from .line import CalibrationLine as CalibrationLine
from .model import MODEL as MODEL, SERVED as SERVED, Description as Description, Digests as Digests, Served as Served
from .promotion import (
    BEFORE as BEFORE,
    BY as BY,
    CHAMPION as CHAMPION,
    NOTE as NOTE,
    SEAL as SEAL,
    WHEN as WHEN,
    Promotion as Promotion,
    promoted_seal as promoted_seal,
)
from .seal import ADDED as ADDED, seal_of as seal_of
