from .model import CalibrationLine as CalibrationLine, Description as Description, Digests as Digests, Served as Served
from .promotion import (
    ADDED as ADDED,
    BEFORE as BEFORE,
    BY as BY,
    CHAMPION as CHAMPION,
    MODEL as MODEL,
    NOTE as NOTE,
    SEAL as SEAL,
    SERVED as SERVED,
    WHEN as WHEN,
    Promotion as Promotion,
    SealedCopy as SealedCopy,
    model_name as model_name,
    promoted_seal as promoted_seal,
    seal_of as seal_of,
)
