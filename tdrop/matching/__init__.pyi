from .balance import BALANCED as BALANCED, Balance as Balance
from .matched import SHARE as SHARE, Matching as Matching, match as match
