// Code contexts.
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'
import { NotFoundError } from 'e2b'
import { openAsBlob } from 'node:fs'
import module from 'node:module'
import { api, keep } from './help.mjs'

let one
const notebook = () => (one ??= Sandbox.create({ timeoutMs: 600_000, envs: { BASE: 'base' } }).then(keep))

export default {
  'code: the value of an expression': async () => {
    const box = await notebook()
    assert.equal((await box.getInfo()).templateId, 'code-interpreter-v1')
    const r = await box.runCode('x = 41\nx + 1')
    assert.deepEqual([r.text, r.results[0].isMainResult, r.executionCount, r.error], ['42', true, 1, undefined])
  },
  'code: state stays': async () => {
    const r = await (await notebook()).runCode('x + 2')
    assert.deepEqual([r.text, r.executionCount], ['43', 2])
  },
  'code: output as it comes': async () => {
    const seen = []
    const r = await (await notebook()).runCode('import sys\nprint("höhe")\nprint("err", file=sys.stderr)', { onStdout: (o) => seen.push(o.line), onStderr: (o) => seen.push(o.line) })
    assert.deepEqual([r.logs.stdout.join(''), r.logs.stderr.join(''), seen.toSorted().join('')], ['höhe\n', 'err\n', [...r.logs.stdout, ...r.logs.stderr].toSorted().join('')])
  },
  'code: errors with their traceback': async () => {
    let told
    const r = await (await notebook()).runCode('1/0', { onError: (e) => { told = e } })
    assert.deepEqual([r.error.name, r.error.value, r.error.traceback.includes('ZeroDivisionError'), told.name], ['ZeroDivisionError', 'division by zero', true, 'ZeroDivisionError'])
  },
  'code: rich results': async () => {
    const seen = []
    const r = await (await notebook()).runCode(`class P:
  def _repr_html_(self): return '<b>hi</b>'
  def _repr_markdown_(self): return '**hi**'
  def _repr_svg_(self): return '<svg/>'
  def _repr_latex_(self): return '$x$'
  def _repr_png_(self): return b'png'
display(P())
{'a': [1, 2]}`, { onResult: (x) => seen.push(x) })
    const [p, d] = r.results
    assert.deepEqual([p.html, p.markdown, p.svg, p.latex, p.png, p.isMainResult], ['<b>hi</b>', '**hi**', '<svg/>', '$x$', Buffer.from('png').toString('base64'), false])
    assert.deepEqual([d.json, d.isMainResult, seen.length], [{ a: [1, 2] }, true, 2])
  },
  'code: javascript': async () => {
    const r = await (await notebook()).runCode('const y = await Promise.resolve(20); console.log("js"); y + 1', { language: 'javascript' })
    assert.deepEqual([r.text, r.logs.stdout.join('')], ['21', 'js\n'])
  },
  'code: typescript': async () => {
    // The host's own Node may be too old for types: the test brings a newer one.
    const box = keep(await Sandbox.create({ envs: { PATH: '/home/user/new:/usr/local/bin:/usr/bin:/bin' } }))
    if (process.env.NEW_NODE) {
      await box.files.write('/home/user/new/node', await openAsBlob(process.env.NEW_NODE))
      await box.commands.run('chmod +x new/node')
    } else if (!module.stripTypeScriptTypes) return
    const c = await box.createCodeContext({ language: 'typescript' })
    assert.equal(c.language, 'typescript')
    const run = (code, opts) => box.runCode(code, { context: c, ...opts })
    const first = await run('interface P { n: number }\nimport type { Q } from "nowhere"\nimport os from "node:os"\nconst p: P = { n: await Promise.resolve<number>(20) }; console.log("ts"); p.n + 1')
    assert.deepEqual([first.text, first.logs.stdout.join(''), first.logs.stderr.join('')], ['21', 'ts\n', ''])
    assert.equal((await run('enum E { A = 3 }\nclass C { constructor(private readonly x: number) {} twice(): number { return this.x * 2 } }\nnew C(p.n + E.A).twice() as number')).text, '46')
    assert.equal((await run('typeof os.cpus')).text, "'function'")
    const [wrong, thrown] = [await run('let x: = 1'), await run('const y: string = "a"\nthrow new RangeError(y)')]
    assert.deepEqual([wrong.error.name, thrown.error.name, thrown.error.traceback.includes('cell-5:2')], ['SyntaxError', 'RangeError', true])
    assert.equal((await run('process.env.OWN!', { envs: { OWN: 'mine' } })).text, "'mine'")
    assert.equal((await box.runCode('const q: number = 1; q', { language: 'ts' })).text, '1')
    const child = keep((await box.fork())[0])
    assert.equal((await child.runCode('p.n as number', { context: c })).text, '20')
    await Promise.all([box.kill(), child.kill()])
  },
  'code: interpreters that the image lacks': async () => {
    const box = keep(await Sandbox.create({ envs: { PATH: '/nothing' } }))
    // The client tells the status alone.
    const asked = async (id, language) => {
      const r = await fetch(`${api}/contexts`, { method: 'POST', headers: { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49999', 'Content-Type': 'application/json' }, body: JSON.stringify({ language }) })
      return `${r.status} ${await r.text()}`
    }
    await assert.rejects(box.runCode('1'), /501/)
    assert.match(await asked(box.sandboxId, 'python'), /501.*no interpreter for python/)
    if (!module.stripTypeScriptTypes) assert.match(await asked((await notebook()).sandboxId, 'typescript'), /501.*22\.13/)
    await box.kill()
  },
  'code: bash': async () => {
    const r = await (await notebook()).runCode('cd /tmp; echo $PWD', { language: 'bash' })
    assert.equal(r.logs.stdout.join(''), '/tmp\n')
  },
  'code: a language that is not there': async () => {
    await assert.rejects((await notebook()).runCode('1', { language: 'r' }), /400/)
  },
  'code: environment of the sandbox, and of one call': async () => {
    const box = await notebook()
    const code = 'import os\nos.environ.get("BASE"), os.environ.get("OWN")'
    for (const [envs, want] of [[undefined, "('base', None)"], [{ OWN: 'ü "x"', BASE: 'other' }, `('other', 'ü "x"')`], [undefined, "('base', None)"]]) {
      assert.equal((await box.runCode(code, { envs })).text, want)
    }
    assert.equal((await box.runCode('process.env.OWN', { language: 'js', envs: { OWN: "it's" } })).text, `"it's"`)
    assert.equal((await box.runCode('echo "$OWN"', { language: 'bash', envs: { OWN: "it's" } })).logs.stdout.join(''), "it's\n")
  },
  'code: too long is ended, and the context lives on': async () => {
    const box = await notebook()
    await box.runCode('z = 5')
    await assert.rejects(box.runCode('import time\ntime.sleep(600)', { timeoutMs: 500 }))
    assert.equal((await box.runCode('z')).text, '5')
  },
  'context: made, apart from others, listed, removed': async () => {
    const box = await notebook()
    const c = await box.createCodeContext({ cwd: '/tmp', language: 'python' })
    assert.deepEqual([c.language, c.cwd], ['python', '/tmp'])
    assert.equal((await box.runCode('import os; os.getcwd()', { context: c })).text, "'/tmp'")
    assert.equal((await box.runCode('x', { context: c })).error.name, 'NameError')
    assert.ok((await box.listCodeContexts()).some((o) => o.id === c.id))
    await box.removeCodeContext(c)
    assert.ok(!(await box.listCodeContexts()).some((o) => o.id === c.id))
    await assert.rejects(box.runCode('1', { context: c }), NotFoundError)
  },
  'context: restarted': async () => {
    const box = await notebook()
    const c = await box.createCodeContext()
    await box.runCode('q = 1', { context: c })
    await box.restartCodeContext(c.id)
    assert.equal((await box.runCode('q', { context: c })).error.name, 'NameError')
    await box.removeCodeContext(c.id)
  },
  'context: what is not there': async () => {
    await assert.rejects((await notebook()).removeCodeContext('nothing'), NotFoundError)
  },
  'context: survives a pause': async () => {
    const box = keep(await Sandbox.create())
    await box.runCode('kept = [1, 2]')
    await box.pause()
    await box.connect()
    assert.equal((await box.runCode('kept + [3]')).text, '[1, 2, 3]')
    await box.kill()
  },
  'context: goes on in forks, each with its own chance': async () => {
    const box = keep(await Sandbox.create())
    const c = await box.createCodeContext()
    await box.runCode('import random\nn = 6', { context: c })
    const children = (await box.fork({ count: 2 })).map(keep)
    const chances = []
    for (const child of children) {
      assert.equal((await child.runCode('n * 7', { context: c })).text, '42')
      chances.push((await child.runCode('random.random()', { context: c })).text)
      await child.runCode('n = 0', { context: c })
    }
    assert.notEqual(chances[0], chances[1])
    assert.equal((await box.runCode('n', { context: c })).text, '6')
    await Promise.all([box, ...children].map((b) => b.kill()))
  },
  'context: goes on from a snapshot': async () => {
    const box = keep(await Sandbox.create())
    await box.runCode('n = 6')
    const snapshot = await box.createSnapshot()
    await box.runCode('n = 0')
    const again = keep(await Sandbox.create(snapshot.snapshotId))
    assert.equal((await again.runCode('n * 7')).text, '42')
    await Promise.all([box.kill(), again.kill(), Sandbox.deleteSnapshot(snapshot.snapshotId)])
  },
  'context: from a snapshot, with an environment of its own': async () => {
    const box = keep(await Sandbox.create({ envs: { A: 'a', B: 'a' } }))
    const code = `import os; (os.environ.get('A'), os.environ.get('B'), os.environ.get('C'))`
    assert.equal((await box.runCode(code)).text, "('a', 'a', None)")
    const snapshot = await box.createSnapshot()
    const again = keep(await Sandbox.create(snapshot.snapshotId, { envs: { B: 'b' } }))
    assert.equal((await again.runCode(code)).text, "('a', 'b', None)")
    assert.equal((await again.runCode(code, { envs: { B: 'c', C: 'c' } })).text, "('a', 'c', 'c')")
    assert.equal((await again.runCode(code)).text, "('a', 'b', None)")
    assert.equal((await again.runCode('echo $A $B', { language: 'bash' })).logs.stdout.join(''), 'a b\n')
    assert.equal((await again.commands.run('echo $A $B')).stdout, 'a b\n')
    const second = await again.createSnapshot()
    const last = keep(await Sandbox.create(second.snapshotId, { envs: { C: 'd' } }))
    assert.equal((await last.commands.run('echo $A $B $C')).stdout, 'a b d\n')
    assert.equal((await last.runCode(code)).text, "('a', 'b', 'd')")
    await Promise.all([box.kill(), again.kill(), last.kill(), Sandbox.deleteSnapshot(snapshot.snapshotId), Sandbox.deleteSnapshot(second.snapshotId)])
  },
  'code: an interpreter that ends itself is told, and starts anew': async () => {
    const box = keep(await Sandbox.create())
    const r = await box.runCode('import os; os._exit(3)')
    assert.equal(r.error.name, 'InterpreterEnded')
    assert.equal((await box.runCode('1 + 1')).text, '2')
    await box.kill()
  },
  'code: only where it was asked for': async () => {
    const { Sandbox: Plain } = await import('e2b')
    const box = keep(await Plain.create())
    const r = await fetch(`${api}/contexts`, { headers: { 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': '49999' } })
    assert.equal(r.status, 502)
    await box.kill()
  },
}
