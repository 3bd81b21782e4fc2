"""The contract's errors, and the checks of ids, tokens, labels and paths that a plugin without an SDK makes itself (rules 1, 10, 11, 14)."""

import posixpath
import re

import grpc
from google.protobuf import any_pb2

from slipway.runtime.v1alpha1 import error_pb2

# How each class travels: error.proto names the gRPC code beside it.
CODES = {
    "not found": (error_pb2.CLASS_NOT_FOUND, grpc.StatusCode.NOT_FOUND),
    "already exists": (error_pb2.CLASS_ALREADY_EXISTS, grpc.StatusCode.ALREADY_EXISTS),
    "invalid": (error_pb2.CLASS_INVALID, grpc.StatusCode.INVALID_ARGUMENT),
    "unsupported": (error_pb2.CLASS_UNSUPPORTED, grpc.StatusCode.UNIMPLEMENTED),
    "failed precondition": (error_pb2.CLASS_FAILED_PRECONDITION, grpc.StatusCode.FAILED_PRECONDITION),
    "exhausted": (error_pb2.CLASS_EXHAUSTED, grpc.StatusCode.RESOURCE_EXHAUSTED),
    "unavailable": (error_pb2.CLASS_UNAVAILABLE, grpc.StatusCode.UNAVAILABLE),
    "internal": (error_pb2.CLASS_INTERNAL, grpc.StatusCode.INTERNAL),
}


class Fault(Exception):
    """An error of the contract. Nothing in it may hold a secret, such as a value of an environment variable (rule 13)."""

    def __init__(self, cls, message, **fields):
        super().__init__(message)
        self.cls, self.message, self.fields = cls, message[:4096], fields  # kind, id, reason, feature, position

    def abort(self, context):
        """Ends a call with this error: the gRPC code, and as its one detail a slipway.runtime.v1alpha1.Error."""
        enum, code = CODES[self.cls]
        detail = any_pb2.Any()
        detail.Pack(error_pb2.Error(error_class=enum, message=self.message, **self.fields))
        # The metadata holds a google.rpc.Status: 1 the code, 2 the message, 3 the details. It is put together by hand, for its
        # Python module is in none of Debian's packages.
        status = b"\x08" + bytes([code.value[0]]) + _field(2, self.message.encode()) + _field(3, detail.SerializeToString())
        context.set_trailing_metadata((("grpc-status-details-bin", status),))
        context.abort(code, self.message.encode("ascii", "backslashreplace").decode())


def _field(number, data):
    """A length-delimited field of a protobuf message."""
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def not_found(kind, id):
    return Fault("not found", f'{kind} "{id}" not found', kind=kind, id=id)


def already_exists(kind, id):
    return Fault("already exists", f'{kind} "{id}" exists already, made with another token', kind=kind, id=id)


def invalid(reason, message):
    return Fault("invalid", message, reason=reason)


def unsupported(feature):
    return Fault("unsupported", f'this worker does not support "{feature}"', feature=feature)


def precondition(reason, kind, id, message):
    return Fault("failed precondition", message, reason=reason, kind=kind, id=id)


def dead(container):
    return precondition("dead", "container", container, f'container "{container}" is gone; destroy it')


def check_id(kind, id):
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?", id):
        raise Fault("invalid", f'{kind} id {id[:60]!r} must be 1 to 48 of a-z, 0-9 and inner "-"', reason="spec", kind=kind)


def check_new(kind, request):
    """What is created has an id, a token, and, but for processes, labels."""
    check_id(kind, request.id)
    if not re.fullmatch(r"[!-~]{1,128}", request.token):
        raise invalid("spec", f'{kind} "{request.id}": the token must be 1 to 128 printable ASCII bytes')
    labels = dict(getattr(request, "labels", {}))
    bad = len(labels) > 32 or sum(len(k) + len(v.encode()) for k, v in labels.items()) > 4096
    for key, value in labels.items():
        bad = bad or not re.fullmatch(r"[a-z0-9._/-]{1,63}", key) or len(value.encode()) > 256
    if bad:
        raise invalid("spec", f'{kind} "{request.id}": a label\'s key is 1 to 63 of a-z, 0-9 and "._/-", its value at most 256 bytes; '
                      "at most 32 labels and 4 KiB are taken")


def check_absolute(path, what):
    """Paths in containers come absolute and clean; the host has resolved them."""
    if not path.startswith(b"/") or path.startswith(b"//") or posixpath.normpath(path) != path or b"\0" in path:
        raise invalid("path", f"{what}: {path[:200]!r} is not a clean absolute path")


def relative(path):
    """The parts of a path inside a volume, which never leaves it."""
    parts = [p for p in path.split(b"/") if p not in (b"", b".")]
    if path.startswith(b"/") or b".." in parts or b"\0" in path:
        raise invalid("path", f"{path[:200]!r} is not a relative path inside the volume")
    return parts


def matches(filter, id, labels):
    """Whether a list's filter passes a thing: all that is set must match."""
    return (not filter.id or filter.id == id) and all(labels.get(k) == v for k, v in filter.labels.items())
