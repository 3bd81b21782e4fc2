// Errors of the contract: their classes, how they travel, and the checks of requests by themselves.
import grpc from '@grpc/grpc-js';

// The gRPC code that belongs to each class.
const codes = {
  NOT_FOUND: grpc.status.NOT_FOUND,
  ALREADY_EXISTS: grpc.status.ALREADY_EXISTS,
  INVALID: grpc.status.INVALID_ARGUMENT,
  UNSUPPORTED: grpc.status.UNIMPLEMENTED,
  FAILED_PRECONDITION: grpc.status.FAILED_PRECONDITION,
  EXHAUSTED: grpc.status.RESOURCE_EXHAUSTED,
  INTERNAL: grpc.status.INTERNAL,
};

// Failure is an error that a host is told of, with its class.
export class Failure extends Error {
  constructor(kind, message, fields = {}) {
    super(message);
    this.class = kind;
    this.fields = fields;
  }
}

export const notFound = (kind, id) => new Failure('NOT_FOUND', `${kind} "${id}" not found`, { kind, id });
export const exists = (kind, id) => new Failure('ALREADY_EXISTS', `${kind} "${id}" is there, made with another token`, { kind, id });
export const invalid = (reason, message) => new Failure('INVALID', message, { reason });
export const unsupported = (feature) => new Failure('UNSUPPORTED', `this worker has no ${feature}`, { feature });
export const refused = (reason, message, fields = {}) => new Failure('FAILED_PRECONDITION', message, { reason, ...fields });
export const internal = (message) => new Failure('INTERNAL', message);

// statusMaker gives a function that turns what was thrown into what grpc-js sends. coding is the service of status.proto.
export function statusMaker(coding) {
  return (error) => {
    let failure = error;
    if (!(error instanceof Failure)) {
      failure = error.code === 'ENOSPC' || error.code === 'EDQUOT'
        ? new Failure('EXHAUSTED', 'the disk is full', { reason: 'storage' })
        : new Failure('INTERNAL', String(error.message), { reason: error.code ? '' : 'panic' });
    }
    const code = codes[failure.class];
    const message = failure.message.slice(0, 1000); // the headers of an answer have a bound
    const detail = coding.Encode.requestSerialize({ errorClass: `CLASS_${failure.class}`, message, ...failure.fields });
    const any = { type_url: 'type.googleapis.com/slipway.runtime.v1alpha1.Error', value: detail };
    const metadata = new grpc.Metadata();
    metadata.set('grpc-status-details-bin', coding.Encode.responseSerialize({ code, message, details: [any] }));
    return { code, details: message, metadata };
  };
}

function need(holds, reason, message) {
  if (!holds) throw invalid(reason, message);
}

export function checkID(id, what) {
  need(/^[a-z0-9]([a-z0-9-]{0,46}[a-z0-9])?$/.test(id), 'spec', `the ${what}'s id must be 1 to 48 of a-z, 0-9 and "-", which neither begins nor ends it`);
}

// checkMade checks what every creation and every start carries.
function checkMade(request, what) {
  checkID(request.id, what);
  need(/^[!-~]{1,128}$/.test(request.token), 'spec', 'a token must be 1 to 128 printable ASCII bytes, without spaces');
  const labels = Object.entries(request.labels ?? {});
  need(labels.length <= 32, 'spec', 'there may be 32 labels at most');
  let size = 0;
  for (const [key, value] of labels) {
    need(/^[a-z0-9._/-]{1,63}$/.test(key), 'spec', 'a label\'s key must be 1 to 63 of a-z, 0-9 and "._/-"');
    need(Buffer.byteLength(value) <= 256, 'spec', `the label ${key} is longer than 256 bytes`);
    size += key.length + Buffer.byteLength(value);
  }
  need(size <= 4096, 'spec', 'the labels are more than 4 KiB together');
}

// Paths are bytes. Here they are strings of one character for each byte, which Node calls latin1.
export const bytes = (text) => Buffer.from(text, 'latin1');
export const text = (buffer) => Buffer.from(buffer).toString('latin1');

function checkClean(path) {
  const clean = path === '/' || (path.startsWith('/') && path.slice(1).split('/').every((part) => part !== '' && part !== '.' && part !== '..'));
  need(clean && !path.includes('\0'), 'path', 'the path must be absolute and clean');
}

export function checkCreateVolume(r) {
  checkMade(r, 'volume');
  need(!r.cloneOf || !r.importPath.length, 'spec', 'a volume has one source at most');
  if (r.cloneOf) checkID(r.cloneOf, 'cloned volume');
  need(!r.importPath.includes(0), 'path', 'the path to import has a NUL');
  for (const n of [r.uid, r.gid]) need(n >= 0 && n <= 4294967294, 'spec', 'uid and gid go from 0 to 4294967294');
}

export function checkCreateContainer(r) {
  checkMade(r, 'container');
  if (r.image === 'imageVolume') checkID(r.imageVolume, 'image');
  need(r.image !== 'imageRef' || r.imageRef, 'image', 'the image\'s reference is empty');
  const paths = new Set();
  for (const mount of r.mounts) {
    checkID(mount.volume, 'volume');
    const path = text(mount.path);
    checkClean(path);
    need(path !== '/' && !paths.has(path), 'path', 'a mount is neither at / nor where another one is');
    paths.add(path);
  }
  if (r.dir.length) checkClean(text(r.dir));
  for (const limit of Object.values(r.limits ?? {})) need(limit >= 0, 'spec', 'a limit is negative');
  need(!Number(r.limits?.containers ?? 0) && !Number(r.limits?.volumes ?? 0), 'spec', 'a container has no limit of containers or volumes');
}

export function checkStartProcess(r) {
  checkID(r.container, 'container');
  checkMade(r, 'process');
  need(r.path.length, 'spec', 'the path is empty');
  let size = r.path.length;
  for (const part of [r.path, ...r.args, ...r.env]) need(!part.includes(0), 'spec', 'path, arguments and environment may have no NUL');
  for (const part of [...r.args, ...r.env]) size += part.length + 9;
  for (const variable of r.env) need(variable.indexOf('=') > 0, 'spec', 'a variable must be NAME=value');
  need(size <= 2 << 20, 'too-large', 'path, arguments and environment are more than 2 MiB');
  if (r.dir.length) checkClean(text(r.dir));
  if (r.tty) checkSize(r.tty);
  need(r.spill >= 0, 'spec', 'the spill is negative');
  need(typeof r.whenFull === 'string', 'spec', 'what to do with a full journal is unknown');
}

export function checkSize(size) {
  need((size?.columns ?? 0) <= 65535 && (size?.rows ?? 0) <= 65535, 'spec', 'a terminal is at most 65535 by 65535');
}

export function checkSignal(name) {
  need(['HUP', 'INT', 'QUIT', 'KILL', 'USR1', 'USR2', 'TERM', 'CONT', 'STOP'].includes(name), 'signal', 'this signal is none of the contract\'s');
}

// checkInside checks a path in a volume. A ".." that leaves it is found where links are followed.
export function checkInside(buffer) {
  const path = text(buffer);
  need(!path.startsWith('/') && !path.includes('\0'), 'path', 'a path in a volume is relative, without NUL');
  let depth = 0;
  for (const part of path.split('/')) {
    depth += part === '..' ? -1 : part === '' || part === '.' ? 0 : 1;
    need(depth >= 0, 'path', 'the path leaves the volume');
  }
}

export function checkEncoding(name) {
  need(name === '' || name === 'raw', 'encoding', 'the only encoding is raw');
}
