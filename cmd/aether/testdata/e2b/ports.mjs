// What listens inside a sandbox.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import http2 from 'node:http2'
import { WebSocket } from 'undici'
import { api, ask, call, key, make, said, shared } from './help.mjs'

// A server that tells what it was sent, streams, and speaks enough WebSocket to echo.
const server = `
import base64, hashlib, json, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
go = threading.Event()
class H(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *a): pass
    def say(self, text):
        b = text.encode(); self.send_response(200); self.send_header('Content-Length', str(len(b))); self.end_headers(); self.wfile.write(b)
    def do_POST(self):
        if self.path == '/echo':
            self.send_response(200); self.send_header('Content-Length', self.headers['Content-Length']); self.end_headers()
            for _ in range(int(self.headers['Content-Length'])): self.wfile.write(self.rfile.read(1)); self.wfile.flush()
            return
        self.say(self.rfile.read(int(self.headers['Content-Length'])).decode()[::-1])
    def do_GET(self):
        if self.path == '/go': go.set(); return self.say('went')
        if self.path == '/headers': return self.say(json.dumps({k.lower(): v for k, v in self.headers.items()}))
        if self.path == '/stream':
            self.send_response(200); self.send_header('Transfer-Encoding', 'chunked'); self.end_headers()
            self.wfile.write(b'4\\r\\none\\n\\r\\n'); self.wfile.flush(); go.wait()
            self.wfile.write(b'4\\r\\ntwo\\n\\r\\n0\\r\\n\\r\\n'); return
        if self.path == '/ws':
            k = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
            self.send_response(101); self.send_header('Upgrade', 'websocket'); self.send_header('Connection', 'Upgrade')
            self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(k.encode()).digest()).decode()); self.end_headers()
            while True:
                head = self.rfile.read(2)
                if len(head) < 2 or head[0] & 15 == 8: self.close_connection = True; return
                n = head[1] & 127; mask = self.rfile.read(4); data = bytes(c ^ mask[i % 4] for i, c in enumerate(self.rfile.read(n)))
                self.wfile.write(bytes([129, n]) + data); self.wfile.flush()
        self.say('hello from ' + self.path)
s = ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H)
print('ready', flush=True)
s.serve_forever()
`

// A service of gRPC that sends back what it is sent and ends with a status of its own.
const grpc = `
import http2 from 'node:http2'
const server = http2.createServer()
server.on('stream', (stream, headers) => {
  stream.respond({ ':status': 200, 'content-type': headers['content-type'] }, { waitForTrailers: true })
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': headers[':path'] === '/echo.Echo/Both' && headers.te === 'trailers' ? '7' : '12' }))
  stream.on('data', (piece) => stream.write(piece)).on('end', () => stream.end())
})
server.listen(8002, '127.0.0.1', () => console.log('ready'))
`

async function serving(box) {
  await box.files.write('/tmp/server.py', server)
  const handle = await said(box, 'python3 /tmp/server.py 8000', 'ready')
  handle.wait().catch(() => {})
  return box
}

let one
const open = () => (one ??= shared().then(serving))
const headers = (box, port = 8000) => ({ 'E2b-Sandbox-Id': box.sandboxId, 'E2b-Sandbox-Port': `${port}` })

export default {
  'port: by headers': async () => {
    const box = await open()
    const r = await fetch(`${api}/some/path`, { headers: headers(box) })
    assert.deepEqual([r.status, await r.text()], [200, 'hello from /some/path'])
  },
  'port: by its host': async () => {
    const box = await open()
    assert.equal((await ask(box.getHost(8000), '/x')).text, 'hello from /x')
  },
  'port: by the host of older clients': async () => {
    const box = await open()
    assert.equal((await ask(`8000-${box.sandboxId}-00000000.example.com`, '/x')).text, 'hello from /x')
  },
  'port: with a body': async () => {
    const box = await open()
    const r = await fetch(`${api}/`, { method: 'POST', body: 'abc', headers: headers(box) })
    assert.equal(await r.text(), 'cba')
  },
  'port: an answer before the body has ended': async () => {
    const box = await open()
    const r = http.request(`${api}/echo`, { method: 'POST', headers: { ...headers(box), 'Content-Length': 6 } })
    r.write('one')
    const [answer] = await once(r, 'response')
    let text = ''
    for await (const piece of answer) {
      text += piece
      if (text === 'one') r.end('two')
    }
    assert.equal(text, 'onetwo')
  },
  'port: an answer as it comes': async () => {
    const box = await open()
    const r = await fetch(`${api}/stream`, { headers: headers(box) })
    let text = ''
    for await (const piece of r.body) {
      text += Buffer.from(piece).toString()
      if (text === 'one\n') assert.equal(await (await fetch(`${api}/go`, { headers: headers(box) })).text(), 'went')
    }
    assert.equal(text, 'one\ntwo\n')
  },
  'port: WebSocket': async () => {
    const box = await open()
    const socket = new WebSocket(`${api.replace('http', 'ws')}/ws`, { headers: headers(box) })
    const answers = []
    await new Promise((resolve, reject) => {
      socket.onopen = () => socket.send('first')
      socket.onerror = reject
      socket.onmessage = ({ data }) => { answers.push(data); answers.length < 3 ? socket.send(`again ${answers.length}`) : resolve() }
    })
    socket.close()
    assert.deepEqual(answers, ['first', 'again 1', 'again 2'])
  },
  'port: gRPC, both ways at once, with its trailers': async () => {
    const box = await open()
    await box.files.write('/tmp/grpc.mjs', grpc)
    const handle = await said(box, 'node /tmp/grpc.mjs', 'ready')
    handle.wait().catch(() => {})
    const session = http2.connect(api)
    try {
      const stream = session.request({ ':method': 'POST', ':path': '/echo.Echo/Both', 'content-type': 'application/grpc', te: 'trailers', 'e2b-sandbox-id': box.sandboxId, 'e2b-sandbox-port': '8002' })
      const answer = once(stream, 'response')
      const trailers = once(stream, 'trailers')
      const pieces = stream[Symbol.asyncIterator]()
      // A message of gRPC is a byte, its length and the message.
      for (const text of ['first', 'second']) {
        stream.write(Buffer.concat([Buffer.from([0, 0, 0, 0, text.length]), Buffer.from(text)]))
        let heard = Buffer.alloc(0)
        while (heard.length < 5 + text.length) heard = Buffer.concat([heard, (await pieces.next()).value])
        assert.equal(heard.subarray(5).toString(), text)
      }
      assert.equal((await answer)[0]['content-type'], 'application/grpc')
      stream.end()
      assert.equal((await pieces.next()).done, true)
      assert.equal((await trailers)[0]['grpc-status'], '7')
    } finally {
      session.destroy()
      await handle.kill()
    }
  },
  'port: what proves who calls stays outside': async () => {
    const box = await open()
    const r = await fetch(`${api}/headers`, { headers: { ...headers(box), 'X-API-Key': key, 'X-Access-Token': 't', Authorization: `Bearer ${key}`, 'X-Own': 'kept' } })
    const sent = await r.json()
    assert.deepEqual([sent['x-api-key'], sent['x-access-token'], sent.authorization, sent['e2b-sandbox-id'], sent['x-own']], [undefined, undefined, undefined, undefined, 'kept'])
    const own = await (await fetch(`${api}/headers`, { headers: { ...headers(box), Authorization: 'Bearer mine' } })).json()
    assert.equal(own.authorization, 'Bearer mine')
  },
  'port: closed': async () => {
    const box = await open()
    const r = await fetch(`${api}/`, { headers: headers(box, 8001) })
    const body = await r.json()
    assert.deepEqual([r.status, body.code, body.port, body.sandboxId], [502, 502, 8001, box.sandboxId])
  },
  'port: of a sandbox that is not there': async () => {
    const r = await fetch(`${api}/`, { headers: { 'E2b-Sandbox-Id': 'nosuchsandbox', 'E2b-Sandbox-Port': '80' } })
    assert.deepEqual([r.status, await r.json()], [502, { sandboxId: 'nosuchsandbox', message: 'The sandbox was not found', code: 502 }])
    const page = await ask('80-nosuchsandbox.example.com', '/', { headers: { Accept: 'text/html' } })
    assert.ok(page.status === 502 && page.headers['content-type'].startsWith('text/html'))
  },
  'port: none is refused': async () => {
    const box = await open()
    for (const port of ['0', '65536', 'x']) assert.equal((await fetch(`${api}/`, { headers: headers(box, port) })).status, 400, port)
  },
  'port: private, with and without its token': async () => {
    const box = await serving(await make({ network: { allowPublicTraffic: false } }))
    assert.equal((await box.getInfo()).network.allowPublicTraffic, false)
    const status = async (token) => (await fetch(`${api}/`, { headers: { ...headers(box), ...(token && { 'E2B-Traffic-Access-Token': token }) } })).status
    assert.deepEqual([await status(), await status('0'.repeat(64)), await status(box.trafficAccessToken)], [403, 403, 200])
    assert.equal((await box.commands.run('echo inside')).stdout, 'inside\n')
    await box.kill()
  },
  'port: a stranger does not wake a sandbox, and others do': async () => {
    const box = await serving(await make({ network: { allowPublicTraffic: false }, lifecycle: { onTimeout: 'pause', autoResume: true } }))
    await box.pause()
    assert.equal((await fetch(`${api}/`, { headers: headers(box) })).status, 403)
    assert.equal((await box.getInfo()).state, 'paused')
    const r = await fetch(`${api}/awake`, { headers: { ...headers(box), 'E2B-Traffic-Access-Token': box.trafficAccessToken } })
    assert.deepEqual([r.status, await r.text()], [200, 'hello from /awake'])
    await box.kill()
  },
  'port: of a paused sandbox': async () => {
    const box = await serving(await make())
    await box.pause()
    assert.equal((await fetch(`${api}/`, { headers: headers(box) })).status, 502)
    await box.kill()
  },
  'port: with another host': async () => {
    const box = await serving(await make({ network: { maskRequestHost: 'localhost:${PORT}' } }))
    assert.equal(JSON.parse((await ask(box.getHost(8000), '/headers')).text).host, 'localhost:8000')
    const r = await call('GET', `/sandboxes/${box.sandboxId}`)
    assert.equal(r.body.network.maskRequestHost, 'localhost:${PORT}')
    await box.kill()
  },
  'port: the guest service by its host': async () => {
    const box = await open()
    const r = await ask(box.getHost(49983), '/envs', { headers: { 'X-Access-Token': box.envdAccessToken } })
    assert.deepEqual([r.status, (await ask(box.getHost(49983), '/envs')).status], [200, 401])
  },
}
