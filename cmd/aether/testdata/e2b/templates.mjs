// Templates that clients build.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { BuildError, Sandbox, Template, waitForFile } from 'e2b'
import { api, call, keep, make } from './help.mjs'

const made = []
process.on('exit', () => made.forEach(dir => fs.rmSync(dir, { recursive: true, force: true })))

// context is a directory with files to copy.
const context = () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'context-'))
  made.push(dir)
  fs.mkdirSync(path.join(dir, 'src', 'deep'), { recursive: true })
  fs.writeFileSync(path.join(dir, 'one.txt'), 'one\n')
  fs.writeFileSync(path.join(dir, 'src', 'a.py'), 'print(1)\n')
  fs.writeFileSync(path.join(dir, 'src', 'b.txt'), 'b\n')
  fs.writeFileSync(path.join(dir, 'src', 'deep', 'c.txt'), 'c\n')
  fs.symlinkSync('b.txt', path.join(dir, 'src', 'link'))
  return dir
}

const build = (template, name, opts = {}) => {
  template.logsRefreshFrequency = 50
  return Template.build(template, name, opts)
}

// of gives what a command says in a new sandbox of a template.
const of = async (name, command, opts) => {
  const box = await make(name)
  try {
    return (await box.commands.run(command, opts)).stdout.trim()
  } finally {
    await box.kill()
  }
}

const plain = () => Template().fromBaseImage()
const unique = () => `drawn-${Date.now()}`

export default {
  'template: a command leaves its files': async () => {
    const info = await build(plain().runCmd('echo made > made.txt'), 'plain')
    assert.deepEqual([info.templateId, info.name, info.tags], ['plain', 'plain', ['default']])
    const box = await make('plain')
    assert.equal(await box.files.read('/home/user/made.txt'), 'made\n')
    const told = await box.getInfo()
    assert.deepEqual([told.templateId, told.name], ['plain', 'plain'])
    await box.kill()
  },
  'template: users of commands': async () => {
    await build(plain().runCmd('id -un > /tmp/a').runCmd('id -un > /tmp/b', { user: 'root' }).setUser('root').runCmd('id -un > /tmp/c'), 'users')
    assert.equal(await of('users', 'cat /tmp/a /tmp/b /tmp/c; id -un'), 'user\nroot\nroot\nroot')
  },
  'template: a working directory': async () => {
    await build(plain().setWorkdir('/srv/app').runCmd('pwd > here').setWorkdir('sub'), 'places')
    assert.equal(await of('places', 'pwd; cat /srv/app/here; stat -c %U .'), '/srv/app/sub\n/srv/app\nuser')
  },
  'template: an environment': async () => {
    await build(plain().setEnvs({ ONE: '1', WAY: '/opt/x:$PATH' }).runCmd('echo $ONE > /tmp/one').setEnvs({ ONE: '2', BOTH: '${ONE}+1' }), 'envs')
    assert.equal(await of('envs', 'cat /tmp/one; echo $ONE $BOTH; echo $WAY | cut -d: -f1,2'), '1\n2 1+1\n/opt/x:/usr/local/sbin')
  },
  'template: sandboxes have an environment of their own too': async () => {
    const box = await make('envs', { envs: { ONE: 'own', MORE: 'x' } })
    const says = async (b) => (await b.commands.run('echo $ONE $BOTH $MORE')).stdout
    assert.equal(await says(box), 'own 1+1 x\n')
    assert.equal((await box.commands.run('echo $MORE', { envs: { MORE: 'y' } })).stdout, 'y\n')
    await box.pause()
    await box.connect()
    assert.equal(await says(box), 'own 1+1 x\n')
    const [child] = await box.fork()
    assert.equal(await says(keep(child)), 'own 1+1 x\n')
    await assert.rejects(make('envs', { envs: { LONG: 'x'.repeat(25_000) } }), /envVars/)
  },
  'template: one file is copied': async () => {
    await build(Template({ fileContextPath: context() }).fromBaseImage().copy('one.txt', '/opt/renamed').copy('one.txt', '/opt/in/').copy('one.txt', 'rel.txt'), 'copied')
    assert.equal(await of('copied', 'cat /opt/renamed /opt/in/one.txt /home/user/rel.txt; stat -c "%U %a" /opt/renamed'), 'one\none\none\nuser 644')
  },
  'template: a directory is copied': async () => {
    await build(Template({ fileContextPath: context() }).fromBaseImage().copy('src', '/opt/src', { user: 'root', mode: 0o750 }), 'copied-dir')
    assert.equal(await of('copied-dir', 'cd /opt/src && find . | sort && cat link && stat -c "%U %a" a.py', { user: 'root' }), '.\n./a.py\n./b.txt\n./deep\n./deep/c.txt\n./link\nb\nroot 750')
  },
  'template: a pattern is copied': async () => {
    await build(Template({ fileContextPath: context() }).fromBaseImage().copy('src/*.txt', '/opt/some/'), 'copied-some')
    assert.equal(await of('copied-some', 'ls /opt/some'), 'b.txt')
  },
  'template: files are sent once': async () => {
    const dir = context()
    const lines = []
    const one = () => Template({ fileContextPath: dir }).fromBaseImage().copy('src', '/opt/once')
    await build(one(), 'once')
    await build(one(), 'once', { onBuildLogs: (l) => lines.push(l.message) })
    assert.ok(lines.some((l) => l.includes('already cached')), lines.join('\n'))
  },
  'template: files of others cannot be replaced': async () => {
    const link = await call('GET', `/templates/x/files/${'a'.repeat(64)}`)
    assert.deepEqual([link.status, link.body.present], [201, false])
    const other = new URL(link.body.url)
    other.searchParams.set('tenant', 'other')
    for (const url of [other.href, link.body.url.replace('a'.repeat(64), 'b'.repeat(64)), `${api}/templates/x/files/${'a'.repeat(64)}`]) {
      const r = await fetch(url, { method: 'PUT', body: 'x' })
      assert.ok(r.status === 401 || r.status === 403, `${r.status}`)
    }
  },
  'template: what ran before is not run again': async () => {
    const drawn = unique()
    const draw = () => plain().runCmd(`cat /proc/sys/kernel/random/uuid > /tmp/${drawn}`)
    await build(draw(), 'drawn-a')
    await build(draw().runCmd('echo more > /tmp/more'), 'drawn-b')
    const [a, b] = [await of('drawn-a', `cat /tmp/${drawn}`), await of('drawn-b', `cat /tmp/${drawn} /tmp/more`)]
    assert.equal(`${a}\nmore`, b)
  },
  'template: what is set after a command does not run it again, and what is set before does': async () => {
    const drawn = unique()
    const draw = (before, after) => plain().setEnvs({ BEFORE: before }).runCmd(`cat /proc/sys/kernel/random/uuid > /tmp/${drawn}; echo "$BEFORE:$AFTER" >> /tmp/${drawn}`)
      .setEnvs({ AFTER: after }).setWorkdir(`/srv/${after}`).setUser('root')
    const seen = []
    for (const [before, after] of [['a', 'x'], ['a', 'y'], ['b', 'y']]) {
      await build(draw(before, after), 'env-order')
      seen.push((await of('env-order', `cat /tmp/${drawn}; echo $BEFORE:$AFTER; pwd; id -un`)).split('\n'))
    }
    assert.deepEqual(seen.map((s) => s.slice(1)), [['a:', 'a:x', '/srv/x', 'root'], ['a:', 'a:y', '/srv/y', 'root'], ['b:', 'b:y', '/srv/y', 'root']])
    assert.deepEqual([seen[1][0] === seen[0][0], seen[2][0] === seen[1][0]], [true, false])
  },
  'template: without the cache everything is run again': async () => {
    const drawn = unique()
    const draw = () => plain().runCmd(`cat /proc/sys/kernel/random/uuid > /tmp/${drawn}`)
    await build(draw(), 'again')
    const before = await of('again', `cat /tmp/${drawn}`)
    await build(draw(), 'again', { skipCache: true })
    assert.notEqual(await of('again', `cat /tmp/${drawn}`), before)
  },
  'template: from a step on the cache is not used': async () => {
    const drawn = unique()
    const steps = (skip) => {
      const t = plain().runCmd(`cat /proc/sys/kernel/random/uuid > /tmp/${drawn}-1`)
      return (skip ? t.skipCache() : t).runCmd(`cat /proc/sys/kernel/random/uuid > /tmp/${drawn}-2`)
    }
    await build(steps(false), 'partly')
    const before = (await of('partly', `cat /tmp/${drawn}-*`)).split('\n')
    await build(steps(true), 'partly')
    const after = (await of('partly', `cat /tmp/${drawn}-*`)).split('\n')
    assert.deepEqual([after[0] === before[0], after[1] === before[1]], [true, false])
  },
  'template: many builds at once share work': async () => {
    const drawn = unique()
    await Promise.all([1, 2, 3, 4].map((n) => build(plain().runCmd(`cat /proc/sys/kernel/random/uuid > /tmp/${drawn}`).runCmd(`echo ${n} > /tmp/n`), `many-${n}`)))
    const all = await Promise.all([1, 2, 3, 4].map((n) => of(`many-${n}`, `cat /tmp/${drawn}; cat /tmp/n`)))
    assert.equal(new Set(all.map((t) => t.split('\n')[0])).size, 1, all.join(' '))
    assert.deepEqual(all.map((t) => t.split('\n')[1]), ['1', '2', '3', '4'])
  },
  'template: the log has what commands write': async () => {
    const lines = []
    await build(plain().runCmd(`echo said-${unique()}; echo complained >&2`), 'loud', { onBuildLogs: (l) => lines.push(l) })
    assert.ok(lines.some((l) => l.level === 'info' && /^said-drawn-\d+$/.test(l.message)), lines.map((l) => l.message).join('\n'))
    assert.ok(lines.some((l) => l.message === 'complained'))
  },
  'template: a log in parts': async () => {
    const info = await build(plain().runCmd(`for i in 1 2 3; do echo line-$i; done; : ${unique()}`), 'parts')
    const whole = await Template.getBuildStatus(info)
    assert.equal(whole.status, 'ready')
    const rest = await Template.getBuildStatus(info, { logsOffset: 2 })
    assert.deepEqual(rest.logEntries, whole.logEntries.slice(2))
    assert.deepEqual((await Template.getBuildStatus(info, { logsOffset: whole.logEntries.length })).logEntries, [])
  },
  'template: in the background': async () => {
    const info = await Template.buildInBackground(plain().runCmd('sleep 0.3'), 'behind')
    let status
    do {
      status = await Template.getBuildStatus(info)
    } while (status.status === 'building' || status.status === 'waiting')
    assert.equal(status.status, 'ready')
  },
  'template: a command that fails is told by its step': async () => {
    const broken = plain().runCmd('true').runCmd('echo oh no; exit 3').runCmd('true')
    await assert.rejects(build(broken, 'broken'), (e) => e instanceof BuildError && e.message.includes('status 3') && e.message.includes('oh no'))
    assert.equal(await Template.exists('broken'), false)
    const info = await Template.buildInBackground(plain().runCmd('true').runCmd('exit 4'), 'broken')
    let status
    do {
      status = await Template.getBuildStatus(info)
    } while (status.status === 'building' || status.status === 'waiting')
    assert.deepEqual([status.status, status.reason.step], ['error', '2'])
  },
  'template: a start command runs in sandboxes': async () => {
    await build(plain().setWorkdir('/srv/www').runCmd('echo served > index.html').setStartCmd('python3 -m http.server 8000', 'python3 -c "import socket; socket.create_connection((\'127.0.0.1\', 8000))"'), 'server')
    const box = await make('server')
    assert.equal((await box.commands.run('python3 -c "import urllib.request as r; print(r.urlopen(\'http://127.0.0.1:8000/\').read().decode())"')).stdout.trim(), 'served')
    await box.kill()
  },
  'template: a start command may end': async () => {
    await build(plain().setStartCmd('touch /tmp/started', waitForFile('/tmp/started')), 'started')
    assert.equal(await of('started', 'ls /tmp/started'), '/tmp/started')
  },
  'template: of another template': async () => {
    await build(plain().setEnvs({ BASE: 'yes' }).setWorkdir('/srv/base').runCmd('echo below > below'), 'below')
    await build(Template().fromTemplate('below').runCmd('echo "$BASE $(cat below)" > above'), 'above')
    assert.equal(await of('above', 'pwd; cat above; echo $BASE'), '/srv/base\nyes below\nyes')
  },
  'template: of a Dockerfile': async () => {
    await build(Template({ fileContextPath: context() }).fromDockerfile('FROM e2bdev/base\nENV A=b\nWORKDIR /app\nCOPY one.txt .\nRUN cat one.txt > two.txt && echo $A >> two.txt\n'), 'docker')
    assert.equal(await of('docker', 'id -un; cat /app/two.txt'), 'user\none\nb')
  },
  'template: tags': async () => {
    const one = await build(plain().runCmd('echo 1 > /tmp/v'), 'tagged:v1.0')
    const two = await build(plain().runCmd('echo 2 > /tmp/v'), 'tagged', { tags: ['v2', 'stable'] })
    assert.deepEqual([one.tags, [...two.tags].sort()], [['v1.0'], ['stable', 'v2']])
    assert.deepEqual([await of('tagged:v1.0', 'cat /tmp/v'), await of('tagged:stable', 'cat /tmp/v')], ['1', '2'])
    const moved = await Template.assignTags('tagged:v1.0', ['stable', 'old'])
    assert.equal(moved.buildId, one.buildId)
    assert.equal(await of('tagged:stable', 'cat /tmp/v'), '1')
    const tags = Object.fromEntries((await Template.getTags('tagged')).map((t) => [t.tag, t.buildId]))
    assert.deepEqual(tags, { 'v1.0': one.buildId, stable: one.buildId, old: one.buildId, v2: two.buildId })
    await Template.removeTags('tagged', ['stable', 'old'])
    assert.deepEqual((await Template.getTags('tagged')).map((t) => t.tag).sort(), ['v1.0', 'v2'])
    await assert.rejects(Sandbox.create('tagged:stable'))
  },
  'template: names': async () => {
    assert.deepEqual(await Promise.all(['base', 'code-interpreter-v1', 'no-such'].map((n) => Template.exists(n))), [true, true, false])
    const r = await call('GET', '/templates')
    assert.ok(r.body.some((t) => t.templateID === 'plain' && t.buildStatus === 'ready' && t.names[0] === 'plain'), JSON.stringify(r.body))
    assert.equal((await call('GET', '/templates/plain')).body.builds.length, 1)
  },
  'template: memory and processors are those of sandboxes': async () => {
    await build(plain(), 'sized', { memoryMB: 512, cpuCount: 1 })
    const box = await make('sized')
    const info = await box.getInfo()
    assert.deepEqual([info.memoryMB, info.cpuCount], [512, 1])
    await box.kill()
  },
  'template: what cannot be built is refused': async () => {
    for (const [t, name] of [[plain(), 'Not A Name'], [plain(), 'base'], [Template().fromTemplate('no-such'), 'orphan'], [Template().fromImage('x.example/y', { username: 'u', password: 'p' }), 'login']]) {
      await assert.rejects(build(t, name), BuildError, name)
    }
    const made = await call('POST', '/v3/templates', { name: 'steps' })
    for (const [steps, status] of [[[{ type: 'EVIL', args: [] }], 400], [[{ type: 'COPY', args: ['a', '/b'], filesHash: '../x' }], 202]]) {
      const r = await call('POST', `/v2/templates/steps/builds/${made.body.buildID}`, { fromImage: 'e2bdev/base', steps })
      assert.equal(r.status, status, JSON.stringify(r.body))
    }
    assert.equal((await call('POST', `/v2/templates/steps/builds/${'0'.repeat(8)}`, { fromImage: 'e2bdev/base' })).status, 404)
  },
  'template: removed': async () => {
    await build(plain().runCmd('true'), 'gone')
    assert.equal((await call('DELETE', '/templates/gone')).status, 204)
    assert.equal(await Template.exists('gone'), false)
  },
}
