// What the behaviours share.
import assert from 'node:assert/strict'
import http from 'node:http'
import { Sandbox } from 'e2b'

export const api = process.env.E2B_API_URL
export const key = process.env.E2B_API_KEY

// call asks the control plane without the client, for what that cannot ask.
export async function call(method, path, body, headers = { 'X-API-Key': key }) {
  const r = await fetch(api + path, { method, headers: { ...headers, ...(body !== undefined && { 'Content-Type': 'application/json' }) }, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await r.text()
  return { status: r.status, headers: r.headers, body: text ? JSON.parse(text) : undefined }
}

// happened waits until something has happened to a sandbox, by the daemon's events.
export async function happened(id, kind) {
  const stop = new AbortController()
  const r = await fetch(`${api}/v1/events`, { headers: { 'X-API-Key': key }, signal: stop.signal })
  let text = ''
  try {
    for await (const piece of r.body) {
      text += Buffer.from(piece).toString()
      for (const line of text.split('\n')) {
        if (line.startsWith('data:') && line.includes(`"${id}"`) && line.includes(`"${kind}"`)) return
      }
      text = text.slice(text.lastIndexOf('\n') + 1)
    }
  } finally {
    stop.abort()
  }
  assert.fail(`no event ${kind}`)
}

// said starts a command and gives its handle once it has written a text.
export async function said(box, command, text, opts = {}) {
  let heard = '', tell
  const ready = new Promise((resolve) => { tell = resolve })
  const handle = await box.commands.run(command, { background: true, timeoutMs: 0, ...opts, onStdout: (piece) => { heard += piece; if (heard.includes(text)) tell() } })
  await Promise.race([ready, handle.wait().then(() => assert.fail(`it ended: ${heard}`))])
  return handle
}

// ask sends a request to a port by the host of it, as a browser does.
export function ask(host, path = '/', { method = 'GET', headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const to = new URL(api)
    const r = http.request({ host: to.hostname, port: to.port, path, method, headers: { ...headers, Host: host } }, (res) => {
      let text = ''
      res.setEncoding('utf8').on('data', (d) => { text += d }).on('end', () => resolve({ status: res.statusCode, headers: res.headers, text }))
    })
    r.on('error', reject)
    r.end(body)
  })
}

const made = []

// make creates a sandbox that is ended when all is over.
export async function make(...args) {
  const box = await Sandbox.create(...args)
  made.push(box.sandboxId)
  return box
}

export const keep = (box) => { made.push(box.sandboxId); return box }

export const endAll = () => Promise.all(made.map((id) => Sandbox.kill(id).catch(() => false)))

let one
// shared is a sandbox for what leaves others alone.
export const shared = () => (one ??= make({ timeoutMs: 600_000, metadata: { kind: 'shared' } }))
