// The official client against the service of the tests: node sdk.mjs URL KEY TEMPLATE
import assert from 'node:assert/strict'
import { AuthenticationError, CommandExitError, NotFoundError, Sandbox } from 'e2b'

const [url, apiKey, template] = process.argv.slice(2)
const at = { apiUrl: url, sandboxUrl: url, apiKey, requestTimeoutMs: 600_000 }
const patient = { timeoutMs: 600_000 }

const sandbox = await Sandbox.create(template, { ...at, metadata: { purpose: 'sdk test', other: 'a&b=c' }, timeoutMs: 600_000 })
assert.equal(await sandbox.isRunning(), true)

const ran = await sandbox.commands.run('echo out; echo err >&2; pwd; id -u', patient)
assert.deepEqual([ran.exitCode, ran.stdout, ran.stderr], [0, 'out\n/home/user\n1000\n', 'err\n'])
await assert.rejects(sandbox.commands.run('exit 7', patient), (e) => e instanceof CommandExitError && e.exitCode === 7)
assert.equal((await sandbox.commands.run('id -u; echo $X', { ...patient, user: 'root', envs: { X: 'set' } })).stdout, '0\nset\n')

const reader = await sandbox.commands.run('read line; echo "got $line"; sleep infinity', { ...patient, background: true, stdin: true })
await sandbox.commands.sendStdin(reader.pid, 'hello\n')
while (reader.stdout !== 'got hello\n') await new Promise((resolve) => setTimeout(resolve, 10))
assert.ok((await sandbox.commands.list()).some((p) => p.pid === reader.pid))
assert.equal(await sandbox.commands.kill(reader.pid), true)

await sandbox.files.write('/home/user/a/file', 'content')
assert.equal(await sandbox.files.read('/home/user/a/file'), 'content')
assert.equal((await sandbox.commands.run('cat a/file; stat -c %U a/file', patient)).stdout, 'contentuser\n')
await assert.rejects(sandbox.files.read('/missing'), NotFoundError)

const ids = async (metadata) => (await Sandbox.list({ ...at, query: { metadata } }).nextItems()).map((s) => s.sandboxId)
assert.deepEqual(await ids({ purpose: 'sdk test', other: 'a&b=c' }), [sandbox.sandboxId])
assert.deepEqual(await ids({ purpose: 'another' }), [])

await sandbox.setTimeout(3600_000)
const info = await sandbox.getInfo()
assert.ok(info.endAt.getTime() - info.startedAt.getTime() >= 3600_000)
assert.deepEqual([info.state, info.metadata.other], ['running', 'a&b=c'])

assert.equal(await sandbox.kill(), true)
assert.equal(await sandbox.isRunning(), false)
assert.equal(await Sandbox.kill(sandbox.sandboxId, at), false)
await assert.rejects(Sandbox.create('missing', at))
await assert.rejects(Sandbox.create(template, { ...at, apiKey: 'e2b_' + 'f'.repeat(40) }), AuthenticationError)
console.log('all checks held')
