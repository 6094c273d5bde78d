"""What differs between two runs by nature, replaced by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable

# The year says which times are made by the run: those in manifests are of 2020.
_YEAR = r"20(?:2[6-9]|[3-9]\d)"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d"
_FRACTION_AND_ZONE = r"(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d)?(?: [A-Z]{3,4})?"
_AGE = r"(?:\d+s|\d+m\d+s|[2-9]m)"  # 500m is a quantity
_GENERATED = "bcdfghjklmnpqrstvwxz2456789"  # the letters of generateName

_RULES = [
    (
        rf"{_YEAR}-\d\d-\d\d[T ]{_CLOCK}(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d)?(?: [A-Z]{{3,4}})?",
        "<time>",
    ),
    (rf"{_DAY}, \d\d {_MONTH} {_YEAR} {_CLOCK} [+-]\d{{4}}", "<time>"),
    (rf"{_DAY} {_MONTH} [ \d]\d {_CLOCK} {_YEAR}", "<time>"),
    (rf"^[IWE]\d{{4}} {_CLOCK}.* reflector\.go:\d+\].*\n", ""),  # how a watch of the client ended
    (rf"([IWEF])\d{{4}} {_CLOCK}\.\d+ +\d+ (\S+?):\d+\]", r"\1 \2]"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
    (r"LS0tLS1CRUdJTi[\w+/=]+", "<pem>"),
    (r"-----BEGIN [A-Z ]+-----[^-]+-----END [A-Z ]+-----", "<pem>"),
    (r"\b((?:release|ca\.crt|tls\.crt|tls\.key):\s+)\d+ bytes", r"\1<size> bytes"),
    (r"(modifiedAt=)\d+", r"\1<time>"),
    (r"(resourceVersion\"?[:=] ?\"?)\d+", r"\1<version>"),
    (r"(Resource Version:\s+)\d+", r"\1<version>"),
    (r"\b10\.96\.(?!0\.1\b)\d+\.\d+", "<cluster-ip>"),
    # Networks of pods: of processes 10.244.0.0/16, of simulated nodes 10.128.0.0/9.
    (r"\b10\.(12[89]|1[3-9]\d|2\d\d)\.\d+\.\d+", "<pod-ip>"),
    (r"(?i)(nodePort\"?: ?)3[0-2]\d{3}\b", r"\1<node-port>"),
    (r"(?<=[: ])3[0-2]\d{3}(?=/(?:TCP|UDP))", "<node-port>"),
    (r"https://127\.0\.0\.1:\d+", "<server>"),
    (r"\b127\.0\.0\.1:\d+", "<server>"),
    (r"/tmp/(LIVE|MERGED)-\d+", r"<\1>"),
    (r"\S*kubectl-edit-\d+\.yaml", "<edited>"),
    (rf"(?<=  ){_AGE} \(x\d+ over {_AGE}\)", "<age>"),
    (rf"(?:(?<=  )|^){_AGE}(?=\s|$)", "<age>"),
    (rf"(?<=[-=])[{_GENERATED}]{{8,10}}(?!\w)", "<hash>"),
    (rf"(?<=-)[{_GENERATED}]{{5}}(?![\w])", "<generated>"),
]
_COMPILED = [(re.compile(pattern, re.MULTILINE), name) for pattern, name in _RULES]
_GAP = re.compile(r"(?<=\S)(?: {2,}| *\t[ \t]*)(?=\S)")


def normalize(text: str, places: Iterable[tuple[str, str]] = ()) -> str:
    """Return the text with times, UIDs, addresses and the like replaced by their names.

    Columns are as wide as their widest cell: gaps within a line become two spaces, and those at its
    end go. `places` are strings of this run and their names: a folder, a namespace.
    """
    for place, name in places:
        text = text.replace(place, name)
    for pattern, name in _COMPILED:
        text = pattern.sub(name, text)
    return "\n".join(_GAP.sub("  ", line).rstrip() for line in text.splitlines())
