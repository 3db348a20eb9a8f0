"""The choices of a policy on how a query ranks, and the words that do not rank.

Words of a question that only join or ask are rare in code. So they would have high weights, and would select
comments that contain "fix".
"""

from collections.abc import Iterable

from msgspec import Struct

_JOINING = (
    "about above after again against all already also although am another any anyway around away because "
    "been before being below between both cannot could did didn doe doesn doing don done down due during "
    "each either else etc even ever every few first further get got having he her here him his however i "
    "instead itself just keep kept let like made make may maybe me might more most much must my need never "
    "new next nor now off often once one only other our out over own per please rather really said same "
    "seem see several shall she should since some something still such take than their them themselve they "
    "thing these those thi though through thu thus together too toward under unless until up upon us used "
    "using very via want way well were whether while who whole whose why within without won would yes yet "
    "you your isn wasn aren couldn shouldn wouldn hasn haven actually currently correctly properly simply "
    "always previously longer"
)
_ASKING = (
    "fix fixe fixed fixing bug issue close closed resolve resolved backport pr commit patch add added adding "
    "change changed improve handle handling allow avoid prevent ensure support behavior behaviour correct "
    "incorrect wrong problem cause caused broken expected report reproduce test tests"
)
COMMON_WORDS = frozenset(f"{_JOINING} {_ASKING}".split(" "))
"""The terms of such words, in the form of `terms`: without a final `s`. `thi` is the term of `this`."""


class QueryRule(Struct, frozen=True, gc=False):
    """The choices of a policy on how a query ranks."""

    drop_words: bool = False
    """Words that only join or ask are no terms of the query, unless it has no other term."""
    file_share: int | None = None
    """The share of the home in the result of a passage, in thousandths.

    The home counts by half of the sum of its three best passages, up to 1,000. None: a quarter, and the home
    counts by its best passage.
    """
    stems: bool = False
    """Terms are stems. The documents' contents are read with `stems`, too."""
    neighbours: int = 0
    """The share of its relevance that a whole candidate adds to its neighbours, in thousandths."""
    adjacent: int = 0
    """The share of its relevance that a passage adds to the passages before and after it, in thousandths."""


def without_common(terms: Iterable[str]) -> list[str]:
    """Return the terms that are not common words; all terms if no other is left."""
    given = list(terms)
    return [term for term in given if term not in COMMON_WORDS] or given
