// Serves one code context in Node.js 16 or newer. The host wraps it in a function
// of (require, load, KEY, INPUT, OUT, ERR, TEXT, TYPES); load is a dynamic import,
// and TYPES says that the code is TypeScript.
//
// Code is evaluated as a browser's console does it (replMode of V8's inspector):
// the last expression has a value, await works at the top, and let, const and
// class may be declared anew. While nothing else is under way the main thread
// blocks in a plain read of its input.
'use strict';
const fs = require('fs');
const vm = require('vm');
const util = require('util');
const inspector = require('inspector');
const { readSync, writeSync } = fs;
const { inspect } = util;
const { stringify, parse } = JSON;
const { from, concat, alloc, isBuffer } = Buffer;
const immediate = setImmediate;
const { now } = Date;
const { wait } = Atomics;
const pause = new Int32Array(new SharedArrayBuffer(4));
const activeResources = process.getActiveResourcesInfo && process.getActiveResourcesInfo.bind(process);

const PIECE = 4096 - 79; // with its head as much as a pipe takes in one step
const BROKEN_PIPES = 71;
const hook = Symbol.for('aether.display');

let nonce = '0'.repeat(32);
let cells = 0;
let serial = 0;
let pending = alloc(0);
let socket = null;
let interrupt = null; // ends the call that is under way
const session = new inspector.Session();

// What follows goes to the host. A piece is written whole or not at all, so that
// what a thread or a child writes can never tear one.

function put(fd, data) {
  for (let at = 0; at < data.length;) {
    try {
      at += writeSync(fd, data, at, data.length - at);
    } catch (failure) {
      if (failure.code !== 'EAGAIN') throw failure;
      wait(pause, 0, 0, 1); // a child made the pipe non-blocking for all
    }
  }
}

const hex = (number, width) => number.toString(16).padStart(width, '0');

function send(fd, kind, text) {
  const body = from(text || '');
  const head = '\x1e' + KEY + nonce + hex(serial++ >>> 0, 8) + kind;
  for (let at = 0, last = false; !last; at += PIECE) {
    const part = body.subarray(at, at + PIECE);
    last = at + PIECE >= body.length;
    const place = at === 0 ? (last ? '=' : '<') : (last ? '>' : '-');
    put(fd, concat([from(head + place + hex(part.length, 4)), part]));
  }
}

const clip = (text, size) => text.length <= size ? text : text.slice(0, size) + `... (${text.length - size} more characters)`;

// Values.

function isPlain(value) {
  if (value === null || ['string', 'number', 'boolean'].includes(typeof value)) return true;
  if (typeof value !== 'object') return false;
  const above = Object.getPrototypeOf(value);
  return Array.isArray(value) || above === Object.prototype || above === null;
}

function plainJSON(value, text) {
  if (!isPlain(value) || text.length > TEXT || (typeof value === 'number' && !isFinite(value))) return undefined;
  try {
    const json = stringify(value);
    return json === undefined ? undefined : parse(json);
  } catch (failure) {
    return undefined; // a circle or a bigint: it has a text and no JSON
  }
}

function bundle(value) {
  const data = {};
  const own = value !== null && ['object', 'function'].includes(typeof value) ? value[hook] : undefined;
  if (typeof own === 'function') {
    for (const [mime, part] of Object.entries(own.call(value))) {
      data[mime] = isBuffer(part) || part instanceof Uint8Array ? from(part).toString('base64') : part;
    }
  }
  if (!('text/plain' in data)) data['text/plain'] = inspect(value, { depth: 4 });
  if (!('application/json' in data)) {
    const json = plainJSON(value, data['text/plain']);
    if (json !== undefined) data['application/json'] = json;
  }
  return data;
}

function show(value, main) {
  const data = bundle(value);
  const text = String(data['text/plain']);
  data['text/plain'] = clip(text, TEXT);
  send(OUT, 'v', stringify({ main, cut: text.length > TEXT, data }));
}

function display(...values) {
  for (const value of values) show(value, false);
}

function describe(failure) {
  const fields = { name: 'Error', value: '', traceback: '' };
  try {
    const isError = failure instanceof Error || util.types.isNativeError(failure);
    fields.name = isError ? String(failure.name) : typeof failure;
    fields.value = clip(isError ? String(failure.message) : inspect(failure), 1 << 16);
    fields.traceback = clip(isError ? ownLines(String(failure.stack)) : fields.value, 1 << 18);
  } catch (again) {
    fields.value = 'it cannot be described';
  }
  return stringify(fields);
}

const foreign = /^\s+at (.*(node:|aether:)|new Promise \(<anonymous>\)$)/;
const ownLines = (stack) => stack.split('\n').filter((line) => !foreign.test(line)).join('\n');

// Source text. What stands in strings, comments and regular expressions is
// blanked out, so that what is left can be searched.

const beforeRegExp = /(^|[=(,;:!&|?{}[+\-*%<>~^]|\b(return|typeof|case|in|of|do|else|void|delete|throw|new|await|yield))\s*$/;

function mask(code) {
  let out = '';
  const blank = (text) => { out += text.replace(/[^\n]/g, ' '); };
  const templates = []; // the depth of braces at which each ${ ends
  let depth = 0;
  for (let at = 0; at < code.length;) {
    const rest = code.slice(at, at + 2);
    let end = at + 1;
    if (rest === '//') end = ends(code, at, /\n|$/g);
    else if (rest === '/*') end = ends(code, at + 2, /\*\/|$/g);
    else if (rest[0] === '"' || rest[0] === "'") end = ends(code, at + 1, rest[0] === '"' ? /(?<!\\)(?:\\\\)*("|\n)|$/g : /(?<!\\)(?:\\\\)*('|\n)|$/g);
    else if (rest[0] === '/' && beforeRegExp.test(out.slice(-100))) end = ends(code, at + 1, /(?<!\\)(?:\\\\)*(\/|\n)|$/g);
    else if (rest[0] === '`' || (rest[0] === '}' && templates[templates.length - 1] === depth)) {
      if (rest[0] === '}') templates.pop();
      end = ends(code, at + 1, /(?<!\\)(?:\\\\)*(`|\$\{)|$/g);
      if (code[end - 1] === '{') templates.push(depth);
    } else {
      if (rest[0] === '{') depth++;
      if (rest[0] === '}') depth--;
      out += rest[0];
      at = end;
      continue;
    }
    blank(code.slice(at, end));
    at = end;
  }
  return out;
}

function ends(code, at, pattern) {
  pattern.lastIndex = at;
  const found = pattern.exec(code);
  return found.index + found[0].length;
}

// withImports makes import work where V8 lets only modules use it.
function withImports(code) {
  if (!/\bimport\b/.test(code)) return code;
  const edits = [];
  const masked = mask(code);
  for (const found of masked.matchAll(/(?<![.\w$])import(?=\s*\()/g)) edits.push([found.index, found.index + 6, IMPORT]);
  for (const found of masked.matchAll(/(?:^|[;\n])\s*import\b(?!\s*[(.])/g)) {
    const start = found.index + found[0].length - 'import'.length;
    const clause = declaration.exec(code.slice(start));
    if (clause) edits.push([start, start + clause[0].length, binding((clause[1] || '').trim(), `await ${IMPORT}(${stringify(clause[3])})`)]);
  }
  return edits.sort((a, b) => b[0] - a[0]).reduce((text, [start, end, by]) => text.slice(0, start) + by + text.slice(end), code);
}

const declaration = /^import\s*(?:([\w$*{}\s,]+?)\s*from\s*)?(['"])([^'"\n]+)\2/;
const IMPORT = 'globalThis[Symbol.for("aether.import")]';

// binding turns the clause of an import declaration into a declaration.
function binding(clause, loaded) {
  if (clause === '') return `void (${loaded})`;
  const [, byDefault, space, names] = /^([\w$]+)?\s*,?\s*(?:\*\s*as\s+([\w$]+))?(?:\{([^}]*)\})?$/.exec(clause) || [];
  const parts = (names || '').split(',').map((name) => name.trim().replace(/\s+as\s+/, ': ')).filter(Boolean);
  if (byDefault) parts.unshift(`default: ${byDefault}`);
  if (space) return `const ${space} = ${loaded}` + (byDefault ? `; const {${parts.join(', ')}} = ${space}` : '');
  return `const {${parts.join(', ')}} = ${loaded}`;
}

// Types.

const strip = TYPES ? quietly(require('module').stripTypeScriptTypes) : undefined;

// quietly calls Node's own function once, which warns at its first use that it may
// change: in a program's output that would be noise of ours.
function quietly(strip) {
  if (!strip) return undefined;
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    strip('');
  } finally {
    process.emitWarning = emitWarning;
  }
  return strip;
}

// withoutTypes blanks types out, so that everything stays where it is. What is more
// than types, such as an enum, has to be rewritten; Node 26 does not do that any more.
function withoutTypes(code) {
  try {
    return strip(code);
  } catch (failure) {
    try {
      return strip(code, { mode: 'transform' });
    } catch (again) {
      throw again.code === 'ERR_INVALID_ARG_VALUE' ? failure : again;
    }
  }
}

// source is the code as V8 takes it.
function source(code) {
  try {
    return withImports(TYPES ? withoutTypes(code) : code);
  } catch (failure) {
    begin(); // which is otherwise the business of the code that runs
    throw failure;
  }
}

function sync() {
  if (TYPES && !strip) throw new Error(`node ${process.version} cannot strip types`);
}

// Running code.

const door = new vm.Script(`globalThis[Symbol.for('aether.enter')]()`, { filename: 'aether:door' });

function evaluate(code) {
  return new Promise((resolve, reject) => {
    interrupt = (why) => reject(why || interrupted());
    const work = () => { begin(); session.post('Runtime.evaluate', { expression: code, replMode: true, userGesture: false }, (failure, answer) => {
      if (failure) reject(new Error(failure.message));
      else if (answer.exceptionDetails) reject(byInterrupt(real(answer.exceptionDetails.exception)));
      else resolve(real(answer.result));
    }); };
    Object.defineProperty(globalThis, Symbol.for('aether.enter'), { value: work, configurable: true });
    try {
      door.runInThisContext({ breakOnSigint: true, displayErrors: false });
    } catch (failure) {
      reject(failure.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? interrupted() : failure);
    }
    send(OUT, 'w'); // from here on the event loop takes interrupts
  });
}

function interrupted() {
  const failure = new Error('the call was interrupted');
  failure.name = 'Interrupt';
  failure.stack = 'Interrupt: the call was interrupted';
  return failure;
}

// byInterrupt gives the failure of a call. An interrupt goes to its children too,
// and that one ended by it may be known before this process has taken its own.
function byInterrupt(failure) {
  try {
    return failure.signal === 'SIGINT' ? interrupted() : failure;
  } catch (again) {
    return failure; // it has no signal
  }
}

// settle takes an interrupt that came as the code of a call ended: Node keeps it
// for the next code that can be interrupted.
const threshold = new vm.Script(`globalThis[Symbol.for('aether.linger')]()`, { filename: 'aether:threshold' });

function settle() {
  const linger = () => { for (const end = now() + 50; now() < end;) wait(pause, 0, 0, 1); };
  Object.defineProperty(globalThis, Symbol.for('aether.linger'), { value: linger, configurable: true });
  try {
    threshold.runInThisContext({ breakOnSigint: true, displayErrors: false });
  } catch (failure) {
    if (failure.code !== 'ERR_SCRIPT_EXECUTION_INTERRUPTED') throw failure;
  }
}

// real gives the value that the inspector describes.
function real(remote) {
  if (!remote) return undefined;
  if (!remote.objectId) return remote.subtype === 'null' ? null : unserialized(remote);
  let value;
  Object.defineProperty(globalThis, Symbol.for('aether.take'), { value: (given) => { value = given; }, configurable: true });
  session.post('Runtime.callFunctionOn', { objectId: remote.objectId, arguments: [{ objectId: remote.objectId }],
    functionDeclaration: `function (value) { globalThis[Symbol.for('aether.take')](value); }` });
  session.post('Runtime.releaseObject', { objectId: remote.objectId });
  return value;
}

function unserialized(remote) {
  if (remote.unserializableValue === undefined) return remote.value;
  return remote.type === 'bigint' ? BigInt(remote.unserializableValue.slice(0, -1)) : Number(remote.unserializableValue);
}

async function run(code) {
  cells++;
  const value = await evaluate(source(code) + `\n//# sourceURL=cell-${cells}`);
  if (value !== undefined) show(value, true);
}

// What a copy of this process must not share with its siblings. V8 seeds
// Math.random once for each realm, so the only new seed is that of a new realm.
function reseed(seed) {
  const v8 = require('v8');
  v8.setFlagsFromString('--random-seed=' + (parseInt(seed.slice(0, 8), 16) & 0x7fffffff || 1));
  Math.random = vm.runInNewContext('Math.random');
  v8.setFlagsFromString('--random-seed=0');
  const data = { reseeded: ['Math.random'], kept: [
    'references to the Math.random of before, and that of other realms and workers',
    'crypto: OpenSSL takes no entropy from JavaScript; its bytes may repeat in a sibling until it reseeds itself',
  ] };
  send(OUT, 'v', stringify({ main: true, cut: false, data: { 'application/json': data } }));
}

// The conversation with the host.

function request() {
  const line = pending.indexOf(10);
  if (line < 0) return null;
  const [operation, mark, size] = pending.toString('latin1', 0, line).split(' ');
  const end = line + 1 + Number(size);
  if (pending.length < end) return null;
  const payload = pending.toString('utf8', line + 1, end);
  pending = pending.subarray(end);
  return { operation, mark, payload };
}

function receiveBlocking() {
  const buffer = alloc(65536);
  for (let next; ;) {
    if ((next = request())) return next;
    const size = readSync(INPUT, buffer, 0, buffer.length, null);
    if (size === 0) return null;
    pending = concat([pending, buffer.subarray(0, size)]);
  }
}

// receiveBeside lets the event loop run on while there is no request.
function receiveBeside() {
  return new Promise((resolve) => {
    if (!socket) socket = new (require('net').Socket)({ fd: INPUT, readable: true, writable: false });
    const handle = socket._handle;
    const stop = (next) => {
      socket.removeAllListeners();
      handle.readStop();
      handle.setBlocking(true);
      socket.unref();
      resolve(next);
    };
    handle.setBlocking(false);
    socket.ref();
    socket.on('data', (data) => {
      pending = concat([pending, data]);
      const next = request();
      if (next) stop(next);
    });
    socket.on('end', () => stop(null));
    socket.on('error', () => process.reallyExit(BROKEN_PIPES));
    socket.resume();
    handle.readStart();
  });
}

const turn = () => new Promise((resolve) => immediate(resolve));

async function receive() {
  if (activeResources && activeResources().length === 0) return receiveBlocking();
  return receiveBeside();
}

// begin says that the call can be interrupted: not before node has prepared for it,
// as an interrupt would end the process until then.
function begin() {
  for (const fd of [OUT, ERR]) send(fd, 'b');
}

async function answer(work, payload) {
  if (work !== run) begin();
  try {
    await work(payload);
  } catch (failure) {
    send(OUT, 'x', describe(failure));
  }
  interrupt = null;
  await turn(); // what is settled already still belongs to this call
  send(OUT, 'e', stringify({ count: cells }));
  send(ERR, 'e');
}

async function serve() {
  const works = { run, settle: run, reseed, sync };
  for (;;) {
    const next = await receive();
    if (!next) break;
    if (next.operation === 'settle') settle();
    await turn(); // an interrupt that came too late is not for this call
    nonce = next.mark;
    await answer(works[next.operation], next.payload);
  }
  process.on('SIGHUP', () => {});
  try {
    process.kill(-process.pid, 'SIGHUP');
  } catch (failure) {
    // it leads no group: there is nobody to hang up on
  }
  process.exit(0);
}

// stream writes at once and in order with everything else, unlike a pipe of
// Node's own, which would also make the descriptor non-blocking for children.
function stream(fd) {
  const { Writable } = require('stream');
  const made = new Writable({ decodeStrings: true, write(data, _, done) { put(fd, data); done(); } });
  made.fd = fd;
  made._type = 'pipe';
  made.destroySoon = made.destroy;
  made._destroy = (failure, done) => done(failure);
  return made;
}

function lazily(name, make) {
  let made;
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => made || (made = make()) });
}

function report(failure) {
  put(2, from('Uncaught ' + (failure instanceof Error ? ownLines(String(failure.stack)) : inspect(failure)) + '\n'));
}

lazily('stdout', () => stream(1));
lazily('stderr', () => stream(2));
process.on('SIGINT', () => interrupt && interrupt());
process.on('uncaughtException', report);
process.on('unhandledRejection', report);
process.on('beforeExit', () => {
  if (interrupt) interrupt(new Error('what is awaited can never come: nothing is under way any more'));
});

Object.defineProperty(globalThis, 'display', { value: display, writable: true, configurable: true, enumerable: false });
Object.defineProperty(globalThis, Symbol.for('aether.import'), { value: load, configurable: true });
session.connect();
serve().catch((failure) => {
  report(failure);
  process.reallyExit(BROKEN_PIPES);
});
