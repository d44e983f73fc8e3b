// Node: libuv's pool, workers at one shared counter, children, timers.
'use strict';
const { Worker, isMainThread, workerData, parentPort } = require('worker_threads');
const assert = require('assert'), crypto = require('crypto'), fs = require('fs/promises'), zlib = require('zlib');
const { promisify } = require('util'), { execFile } = require('child_process');

function worker() {
  const shared = new Int32Array(workerData.memory);
  for (let i = 0; i < 10000; i++) Atomics.add(shared, 0, 1);
  if (workerData.me === 7) {
    Atomics.store(shared, 1, 1);
    Atomics.notify(shared, 1);
  } else {
    assert.notStrictEqual(Atomics.wait(shared, 1, 0, 60000), 'timed-out');
  }
  const rubbish = [];
  for (let i = 0; i < 100000; i++) rubbish[i % 100] = { i };
  parentPort.postMessage(rubbish[99].i);
}

async function main() {
  const memory = new SharedArrayBuffer(8);
  const said = await Promise.all(Array.from({ length: 8 }, (_, me) => new Promise((good, bad) => {
    const w = new Worker(__filename, { workerData: { memory, me } });
    w.on('message', good);
    w.on('error', bad);
  })));
  assert(said.every(n => n === 99999) && new Int32Array(memory)[0] === 80000);
  const derive = promisify(crypto.pbkdf2);
  const keys = await Promise.all(Array.from({ length: 16 }, (_, i) => derive('word', 'salt' + i % 2, 1000, 16, 'sha1')));
  keys.forEach((k, i) => assert(k.equals(crypto.pbkdf2Sync('word', 'salt' + i % 2, 1000, 16, 'sha1'))));
  await Promise.all(Array.from({ length: 80 }, async (_, i) => {
    await fs.writeFile('f' + i, 'y'.repeat(i * 50));
    assert.strictEqual((await fs.readFile('f' + i)).length, i * 50);
  }));
  const deflate = promisify(zlib.deflate);
  for (const z of await Promise.all(Array.from({ length: 8 }, () => deflate(Buffer.alloc(500000, 'xyz')))))
    assert(zlib.inflateSync(z).equals(Buffer.alloc(500000, 'xyz')));
  const echo = await Promise.all(Array.from({ length: 8 }, (_, i) => promisify(execFile)('/bin/echo', [String(i)])));
  assert.deepStrictEqual(echo.map(e => Number(e.stdout)), [0, 1, 2, 3, 4, 5, 6, 7]);
  console.log('all good');
}

if (isMainThread) main().catch(e => { console.log(e); process.exit(1); });
else worker();
