#!/usr/bin/env node
// The plugin's way in: the handshake, what each call needs, and the program's end.
import fs from 'node:fs';
import os from 'node:os';
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import loader from '@grpc/proto-loader';
import * as check from './errors.js';
import { Containers } from './containers.js';
import { crc32c } from './crc32c.js';
import { follow } from './follow.js';
import { Volumes, remove } from './volumes.js';

const { Failure, invalid, notFound, refused, unsupported } = check;
const encodings = ['raw'];
const features = ['network.none', 'tar.devices', 'tar.dir-mtimes', 'volatile'];

if (process.env.SLIPWAY_PLUGIN !== 'slipway-runtime-v1') {
  console.error('slipway-node is a plugin of Slipway: name it in a configuration, and slipway starts it');
  process.exit(64);
}

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const files = ['plugin', 'worker', 'data', 'error'].map((name) => `slipway/runtime/v1alpha1/${name}.proto`);
const definition = loader.loadSync([...files, 'health.proto', 'status.proto'], {
  includeDirs: [here('../../sdk/proto'), here('proto')], longs: Number, enums: String, defaults: true, oneofs: true,
});
const { slipway: { runtime: { v1alpha1: contract } }, google, grpc: { health } } = grpc.loadPackageDefinition(definition);
const statusOf = check.statusMaker(google.rpc.Coding.service);

function log(level, message) {
  const line = { '@level': level, '@message': message, '@timestamp': new Date().toISOString(), '@module': 'node' };
  process.stderr.write(`${JSON.stringify(line)}\n`);
}

const dir = fs.mkdtempSync(`${os.tmpdir()}/slipway-node-`);
const incarnation = randomUUID();
let workers = null; // by name, once configured
const watchers = new Set(); // calls of Workers

function configure({ workers: blocks, plugin }) {
  if (workers) throw refused('', 'the plugin is configured already');
  for (const block of [plugin, ...blocks]) {
    if (!block?.values.length) continue;
    let settings;
    try {
      settings = JSON.parse(block.values);
    } catch {
      throw invalid('config', `the settings of "${block.name}" are no JSON`);
    }
    const [name] = Object.keys(settings);
    if (name !== undefined) throw invalid('config', `there is no setting "${name}"`);
  }
  workers = new Map(blocks.map(({ name }, i) => {
    const volumes = new Volumes(`${dir}/${i}/volumes`, (id) => containers.inUse(id));
    const containers = new Containers(`${dir}/${i}/containers`, `${dir}/${i}/volumes`, volumes);
    return [name, { volumes, containers }];
  }));
  return {};
}

// worker checks a request in the contract's order, and gives the worker that it names. wants gives what it asks for, by feature.
function worker(request, checks, wants = {}) {
  if (!workers) throw refused('', 'Configure comes first');
  checks();
  const found = workers.get(request.worker);
  if (!found) throw notFound('worker', request.worker);
  for (const [feature, wanted] of Object.entries(wants)) {
    if (wanted && !features.includes(feature)) throw unsupported(feature);
  }
  return found;
}

const ids = (r, ...kinds) => () => kinds.forEach((kind) => check.checkID(r[kind] ?? r.id, kind));

const wantedOfContainer = (r) => ({
  'image.volume': r.image === 'imageVolume', 'image.ref': r.image === 'imageRef', privileged: r.privileged, 'network.none': r.hermetic,
  'limits.cpu': r.limits?.cpuMillis, 'limits.memory': r.limits?.memoryBytes, 'limits.disk': r.limits?.diskBytes, 'limits.pids': r.limits?.pids,
});

// What is answered once. A list is answered by an array, which is sent in parts.
const single = {
  Status: (r) => {
    worker(r, () => {});
    return { health: 'HEALTH_HEALTHY', containerIncarnation: incarnation, volumeIncarnation: incarnation, features, encodings };
  },
  CreateVolume: (r) => worker(r, () => check.checkCreateVolume(r), { 'volume.import': r.importPath.length, privileged: r.privileged }).volumes.createVolume(r),
  SealVolume: (r) => worker(r, ids(r, 'volume')).volumes.sealVolume(r),
  DestroyVolume: (r) => worker(r, ids(r, 'volume')).volumes.destroyVolume(r),
  DestroyContainer: (r) => worker(r, ids(r, 'container')).containers.destroyContainer(r),
  StartProcess: (r) => worker(r, () => check.checkStartProcess(r), { tty: r.tty, users: r.user }).containers.startProcess(r),
  SignalProcess: (r) => worker(r, () => {
    ids(r, 'container', 'process')();
    check.checkSignal(r.signal);
  }).containers.signalProcess(r),
  ResizeProcess: (r) => worker(r, () => {
    ids(r, 'container', 'process')();
    check.checkSize(r.size);
  }, { 'tty.resize': true }),
  PeerTicket: (r) => worker(r, () => checkPath(r, r.path), { 'peer.stream': true }),
  PeerSend: (r) => worker(r, () => checkPath(r, r.path), { 'peer.stream': true }),
  StatFile: (r) => worker(r, () => checkPath(r, r.path), { 'files.read': true }),
};

const several = {
  ListVolumes: (r) => cut('volumes', worker(r, () => {}).volumes.listVolumes(r)),
  ListContainers: (r) => cut('containers', worker(r, () => {}).containers.listContainers(r)),
  ListProcesses: (r) => cut('processes', worker(r, ids(r, 'container')).containers.listProcesses(r)),
  CreateContainer: async (r) => {
    await worker(r, () => check.checkCreateContainer(r), wantedOfContainer(r)).containers.createContainer(r);
    return [{ done: {} }];
  },
  ListFiles: (r) => worker(r, () => checkPath(r, r.dir), { 'files.read': true }),
  ReadFile: (r) => worker(r, () => {
    checkPath(r, r.path);
    if (r.offset < 0) throw invalid('spec', 'the offset is negative');
  }, { 'files.read': true }),
  StreamOut: (r) => withTrailer(worker(r, () => checkPath(r, r.path)).volumes.streamOut(r)),
};

function checkPath(r, path) {
  check.checkID(r.volume, 'volume');
  check.checkInside(path);
  check.checkEncoding(r.encoding ?? '');
}

// cut makes messages of a list: a hundred of the largest things are less than a megabyte.
function cut(name, things) {
  const messages = [];
  for (let i = 0; i < things.length; i += 100) messages.push({ [name]: things.slice(i, i + 100) });
  return messages;
}

async function* withTrailer(pieces) {
  let size = 0;
  let sum = 0;
  for await (const data of pieces) {
    size += data.length;
    sum = crc32c(data, sum);
    yield { data };
  }
  yield { trailer: { bytes: size, crc32c: sum } };
}

const answerOnce = (handle) => async (call, callback) => {
  try {
    callback(null, (await handle(call.request)) ?? {});
  } catch (error) {
    report(error);
    callback(statusOf(error));
  }
};

const answerSeveral = (handle) => async (call) => {
  const cancelled = new Promise((resolve) => { call.on('cancelled', resolve); });
  try {
    for await (const message of await handle(call.request)) {
      await Promise.race([cancelled, new Promise((resolve) => { call.write(message, resolve); })]);
      if (call.cancelled) return;
    }
    call.end();
  } catch (error) {
    report(error);
    call.emit('error', statusOf(error));
  }
};

// report logs what nobody expects. What a host is told needs no log besides.
function report(error) {
  if (!(error instanceof Failure)) log('error', error.stack);
}

async function streamIn(call, callback) {
  const frames = call[Symbol.asyncIterator]();
  const abort = () => call.destroy(new Error('the call is over'));
  call.on('cancelled', abort);
  try {
    const { value: first } = await frames.next();
    if (first?.frame !== 'header') throw invalid('spec', 'the header comes first');
    const { volumes } = worker(first.header, () => checkPath(first.header, first.header.path));
    await volumes.streamIn(first.header, frames, abort);
    callback(null, {});
  } catch (error) {
    if (!call.cancelled) report(error);
    callback(statusOf(error));
  }
}

const mapped = (handlers, wrap) => Object.fromEntries(Object.entries(handlers).map(([name, handle]) => [name, wrap(handle)]));

const server = new grpc.Server();
server.addService(contract.Plugin.service, {
  ...mapped({
    Info: () => ({ name: 'node', version: '0.1.0', sdk: 'none', pluginSchema: {}, workerSchema: {} }),
    Configure: configure,
    Health: () => ({}),
  }, answerOnce),
  Workers: (call) => {
    if (!workers) {
      call.emit('error', statusOf(refused('', 'Configure comes first')));
      return;
    }
    watchers.add(call);
    call.on('cancelled', () => watchers.delete(call));
    call.write({ kind: 'WORKER_EVENT_KIND_SNAPSHOT', workers: [...workers.keys()].map((name) => ({ name, platform: 'linux' })) });
  },
});
const implementation = { ...mapped(single, answerOnce), ...mapped(several, answerSeveral) };
server.addService(contract.Worker.service, implementation);
server.addService(contract.Data.service, {
  ...implementation,
  StreamIn: streamIn,
  FollowProcess: (call) => follow(call, async (header) => {
    const { containers } = worker(header, ids(header, 'container', 'process'));
    return containers.process(header.container, header.process);
  }, (error) => {
    report(error);
    return statusOf(error);
  }),
});
server.addService(health.v1.Health.service, {
  Check: (call, callback) => {
    if (['', 'plugin'].includes(call.request.service)) callback(null, { status: 'SERVING' });
    else callback({ code: grpc.status.NOT_FOUND, details: 'no such service' });
  },
});

// stop lets calls finish for five seconds. What runs in containers ends with the plugin: nobody else holds its first processes' input.
process.umask(0o022);
process.on('uncaughtException', report); // a defect that no call was waiting for; containers would end with the plugin

let stopping = false;
async function stop() {
  if (stopping) return;
  stopping = true;
  for (const call of watchers) call.end();
  await new Promise((resolve) => {
    server.tryShutdown(resolve);
    setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, 5000);
  });
  for (const { containers } of workers?.values() ?? []) {
    await Promise.all(containers.list().map(({ id }) => containers.destroyContainer({ id }).catch(() => {})));
  }
  await remove(dir).catch(() => {});
  process.exit(0);
}

process.on('SIGINT', () => {}); // a terminal sends it to the host and to its plugins
process.on('SIGTERM', stop);
process.stdin.on('end', stop).on('error', stop).resume();

const socket = `${process.env.PLUGIN_UNIX_SOCKET_DIR}/plugin.sock`;
server.bindAsync(`unix:${socket}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) {
    log('error', `listening: ${error.message}`);
    process.exit(1);
  }
  process.stdout.write(`1|1|unix|${socket}|grpc|\n`);
});
