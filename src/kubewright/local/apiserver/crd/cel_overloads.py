"""The functions of CEL and of Kubernetes' libraries: which types each takes and what it returns."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import msgspec

from kubewright.local.apiserver.crd.cel_types import CelType

_COMPARED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
_SUMMED = ("int", "uint", "double", "duration")
_NUMBERS = ("int", "uint", "double")
_CLOCK = ("getHours", "getMinutes", "getSeconds", "getMilliseconds")
_CALENDAR = (
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    *_CLOCK,
)
_NAMED_FORMATS = (
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
)
_COMPARISONS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}

# A function, the id of its overload, its types. A leading dot makes it a method of the first one;
# A and B stand for any type. Ids are those of the language's specification where costs name them.
_TABLE = """
_==_ equals A A = bool
_!=_ not_equals A A = bool
_&&_ logical_and bool bool = bool
_||_ logical_or bool bool = bool
!_ logical_not bool = bool
@not_strictly_false not_strictly_false bool = bool
_?_:_ conditional bool A A = A
_+_ add_int64 int int = int
_+_ add_uint64 uint uint = uint
_+_ add_double double double = double
_+_ add_string string string = string
_+_ add_bytes bytes bytes = bytes
_+_ add_list list(A) list(A) = list(A)
_+_ add_duration_duration duration duration = duration
_+_ add_duration_timestamp duration timestamp = timestamp
_+_ add_timestamp_duration timestamp duration = timestamp
_-_ subtract_int64 int int = int
_-_ subtract_uint64 uint uint = uint
_-_ subtract_double double double = double
_-_ subtract_duration_duration duration duration = duration
_-_ subtract_timestamp_duration timestamp duration = timestamp
_-_ subtract_timestamp_timestamp timestamp timestamp = duration
_*_ multiply_int64 int int = int
_*_ multiply_uint64 uint uint = uint
_*_ multiply_double double double = double
_/_ divide_int64 int int = int
_/_ divide_uint64 uint uint = uint
_/_ divide_double double double = double
_%_ modulo_int64 int int = int
_%_ modulo_uint64 uint uint = uint
-_ negate_int64 int = int
-_ negate_double double = double
_[_] index_list list(A) int = A
_[_] index_map map(A,B) A = B
_[_] optional_list_index_int optional_type(list(A)) int = optional_type(A)
_[_] optional_map_index_value optional_type(map(A,B)) A = optional_type(B)
_[?_] list_optindex_optional_int list(A) int = optional_type(A)
_[?_] optional_list_optindex_optional_int optional_type(list(A)) int = optional_type(A)
_[?_] map_optindex_optional_value map(A,B) A = optional_type(B)
_[?_] optional_map_optindex_optional_value optional_type(map(A,B)) A = optional_type(B)
@in in_list A list(A) = bool
@in in_map A map(A,B) = bool
size size_string string = int
size size_bytes bytes = int
size size_list list(A) = int
size size_map map(A,B) = int
.size string_size string = int
.size bytes_size bytes = int
.size list_size list(A) = int
.size map_size map(A,B) = int
int int64_to_int64 int = int
int uint64_to_int64 uint = int
int double_to_int64 double = int
int string_to_int64 string = int
int timestamp_to_int64 timestamp = int
int duration_to_int64 duration = int
uint uint64_to_uint64 uint = uint
uint int64_to_uint64 int = uint
uint double_to_uint64 double = uint
uint string_to_uint64 string = uint
double double_to_double double = double
double int64_to_double int = double
double uint64_to_double uint = double
double string_to_double string = double
bool bool_to_bool bool = bool
bool string_to_bool string = bool
string string_to_string string = string
string bool_to_string bool = string
string bytes_to_string bytes = string
string double_to_string double = string
string int64_to_string int = string
string uint64_to_string uint = string
string duration_to_string duration = string
string timestamp_to_string timestamp = string
string ip_to_string net.IP = string
string cidr_to_string net.CIDR = string
bytes bytes_to_bytes bytes = bytes
bytes string_to_bytes string = bytes
duration duration_to_duration duration = duration
duration string_to_duration string = duration
timestamp timestamp_to_timestamp timestamp = timestamp
timestamp string_to_timestamp string = timestamp
timestamp int64_to_timestamp int = timestamp
.contains contains_string string string = bool
.endsWith ends_with_string string string = bool
.startsWith starts_with_string string string = bool
.matches matches_string string string = bool
matches matches string string = bool
optional.of optional_of A = optional_type(A)
optional.ofNonZeroValue optional_ofNonZeroValue A = optional_type(A)
optional.none optional_none = optional_type(A)
.value optional_value optional_type(A) = A
.hasValue optional_hasValue optional_type(A) = bool
.or optional_or_optional optional_type(A) optional_type(A) = optional_type(A)
.orValue optional_orValue_value optional_type(A) A = A
.charAt string_char_at_int string int = string
.indexOf string_index_of_string string string = int
.indexOf string_index_of_string_int string string int = int
.indexOf list_a_index_of_int list(A) A = int
.lastIndexOf string_last_index_of_string string string = int
.lastIndexOf string_last_index_of_string_int string string int = int
.lastIndexOf list_a_last_index_of_int list(A) A = int
.includes list_includes_dyn_dyn dyn dyn = bool
.lowerAscii string_lower_ascii string = string
.upperAscii string_upper_ascii string = string
.replace string_replace_string_string string string string = string
.replace string_replace_string_string_int string string string int = string
.split string_split_string string string = list(string)
.split string_split_string_int string string int = list(string)
.substring string_substring_int string int = string
.substring string_substring_int_int string int int = string
.trim string_trim string = string
.join list_join list(string) = string
.join list_join_string list(string) string = string
.format string_format string list(dyn) = string
strings.quote strings_quote string = string
sets.contains list_sets_contains_list list(A) list(A) = bool
sets.equivalent list_sets_equivalent_list list(A) list(A) = bool
sets.intersects list_sets_intersects_list list(A) list(A) = bool
.slice list_slice list(A) int int = list(A)
.flatten list_flatten list(list(A)) = list(A)
.flatten list_flatten_int list(dyn) int = list(dyn)
lists.range lists_range int = list(int)
.reverse list_reverse list(A) = list(A)
.distinct list_distinct list(A) = list(A)
.find string_find_string string string = string
.findAll string_find_all_string string string = list(string)
.findAll string_find_all_string_int string string int = list(string)
url string_to_url string = kubernetes.URL
isURL is_url_string string = bool
.getScheme url_get_scheme kubernetes.URL = string
.getHost url_get_host kubernetes.URL = string
.getHostname url_get_hostname kubernetes.URL = string
.getPort url_get_port kubernetes.URL = string
.getEscapedPath url_get_escaped_path kubernetes.URL = string
.getQuery url_get_query kubernetes.URL = map(string,list(string))
ip string_to_ip string = net.IP
isIP is_ip string = bool
ip.isCanonical ip_is_canonical string = bool
.family ip_family net.IP = int
.isUnspecified ip_is_unspecified net.IP = bool
.isLoopback ip_is_loopback net.IP = bool
.isLinkLocalMulticast ip_is_link_local_multicast net.IP = bool
.isLinkLocalUnicast ip_is_link_local_unicast net.IP = bool
.isGlobalUnicast ip_is_global_unicast net.IP = bool
cidr string_to_cidr string = net.CIDR
isCIDR is_cidr string = bool
.containsIP cidr_contains_ip_string net.CIDR string = bool
.containsIP cidr_contains_ip_ip net.CIDR net.IP = bool
.containsCIDR cidr_contains_cidr_string net.CIDR string = bool
.containsCIDR cidr_contains_cidr net.CIDR net.CIDR = bool
.ip cidr_ip net.CIDR = net.IP
.prefixLength cidr_prefix_length net.CIDR = int
.masked cidr_masked net.CIDR = net.CIDR
quantity string_to_quantity string = kubernetes.Quantity
isQuantity is_quantity_string string = bool
.sign quantity_sign kubernetes.Quantity = int
.isGreaterThan quantity_is_greater_than kubernetes.Quantity kubernetes.Quantity = bool
.isLessThan quantity_is_less_than kubernetes.Quantity kubernetes.Quantity = bool
.compareTo quantity_compare_to kubernetes.Quantity kubernetes.Quantity = int
.asApproximateFloat quantity_get_float kubernetes.Quantity = double
.asInteger quantity_get_int kubernetes.Quantity = int
.isInteger quantity_is_integer kubernetes.Quantity = bool
.add quantity_add kubernetes.Quantity kubernetes.Quantity = kubernetes.Quantity
.add quantity_add_int kubernetes.Quantity int = kubernetes.Quantity
.sub quantity_sub kubernetes.Quantity kubernetes.Quantity = kubernetes.Quantity
.sub quantity_sub_int kubernetes.Quantity int = kubernetes.Quantity
semver string_to_semver string = kubernetes.Semver
semver string_bool_to_semver string bool = kubernetes.Semver
isSemver is_semver_string string = bool
isSemver is_semver_string_bool string bool = bool
.isGreaterThan semver_is_greater_than kubernetes.Semver kubernetes.Semver = bool
.isLessThan semver_is_less_than kubernetes.Semver kubernetes.Semver = bool
.compareTo semver_compare_to kubernetes.Semver kubernetes.Semver = int
.major semver_major kubernetes.Semver = int
.minor semver_minor kubernetes.Semver = int
.patch semver_patch kubernetes.Semver = int
.validate format-validate kubernetes.NamedFormat string = optional_type(list(string))
format.named format-named string = optional_type(kubernetes.NamedFormat)
optional.unwrap optional_unwrap list(optional_type(A)) = list(A)
.unwrapOpt optional_unwrapOpt list(optional_type(A)) = list(A)
.first list_first list(A) = optional_type(A)
.last list_last list(A) = optional_type(A)
cel.@mapInsert @mapInsert_map_map map(A,B) map(A,B) = map(A,B)
cel.@mapInsert @mapInsert_map_key_value map(A,B) A B = map(A,B)
type type A = type(A)
dyn to_dyn A = dyn
"""


class Overload(msgspec.Struct, frozen=True):
    """One way to call a function; `A` and `B` among its types stand for any."""

    id: str
    is_method: bool
    parameters: tuple[CelType, ...]
    result: CelType


@functools.cache
def find_overloads(function: str) -> tuple[Overload, ...]:
    """Return the ways to call a function; empty for one that is not known here."""
    return _tables().get(function, ())


@functools.cache
def _tables() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, list[Overload]] = {}
    for line in [*_TABLE.strip().splitlines(), *_templates()]:
        left, _, result = line.partition(" = ") if " = " in line else line.partition("= ")
        name, identity, *parameters = left.split()
        overload = Overload(
            identity, name[0] == ".", tuple(map(parse_type, parameters)), parse_type(result)
        )
        found.setdefault(name.removeprefix("."), []).append(overload)
    return {name: tuple(overloads) for name, overloads in found.items()}


def _templates() -> Iterator[str]:
    """Yield what there is for each of several types."""
    for symbol, word in _COMPARISONS.items():
        for name in _COMPARED:
            identity = {"int": "int64", "uint": "uint64"}.get(name, name)
            yield f"{symbol} {word}_{identity} {name} {name} = bool"
        for left in _NUMBERS:
            for right in _NUMBERS:
                if left != right:
                    yield f"{symbol} {word}_{left}_{right} {left} {right} = bool"
    for name in _COMPARED:
        yield f".isSorted list_{name}_is_sorted_bool list({name}) = bool"
        yield f".max list_{name}_max_{name} list({name}) = {name}"
        yield f".min list_{name}_min_{name} list({name}) = {name}"
        yield f".sort list_{name}_sort list({name}) = list({name})"
        keys = f"list_{name}_sortByAssociatedKeys"
        yield f".@sortByAssociatedKeys {keys} list(A) list({name}) = list(A)"
    for name in _CALENDAR:
        yield f".{name} timestamp_{name} timestamp = int"
        yield f".{name} timestamp_{name}_tz timestamp string = int"
    for name in _CLOCK:
        yield f".{name} duration_{name} duration = int"
    for name in _NAMED_FORMATS:
        yield f"format.{name} format.{name} = kubernetes.NamedFormat"
    for name in _SUMMED:
        yield f".sum list_{name}_sum_{name} list({name}) = {name}"


@functools.cache
def parse_type(text: str) -> CelType:
    """Read a type as this table writes it, such as `map(string,list(A))`."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return CelType(name)
    parts, depth, start = [], 0, 0
    inner = rest[:-1]
    for at, char in enumerate(inner):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(inner[start:at])
            start = at + 1
    return CelType(name, tuple(map(parse_type, [*parts, inner[start:]])))
