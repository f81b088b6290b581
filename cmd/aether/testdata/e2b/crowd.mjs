// Many clients at once, each with a key of its own.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

const keys = process.env.KEYS.split(' ')
const count = Number(process.env.COUNT)

// use has a client make its sandboxes and look into each.
async function use(apiKey, n) {
  const boxes = await Promise.all(Array.from({ length: count }, () => Sandbox.create({ apiKey, timeoutMs: 600_000, metadata: { n: `${n}` } })))
  for (const [i, box] of boxes.entries()) {
    await box.files.write('mine', `${n} ${i}`)
    assert.equal((await box.commands.run('cat mine')).stdout, `${n} ${i}`)
  }
  return boxes
}

export default {
  'crowd: sandboxes of many clients at once': async () => {
    const all = await Promise.all(keys.map(use))
    assert.equal(new Set(all.flat().map((b) => b.sandboxId)).size, keys.length * count)
    const list = await Promise.all(keys.map((apiKey) => Sandbox.list({ apiKey, limit: 100 }).nextItems()))
    list.forEach((found, n) => assert.deepEqual(found.map((b) => b.metadata.n), Array(count).fill(`${n}`)))
    await Promise.all(all.flat().map((box) => box.kill()))
  },
}
