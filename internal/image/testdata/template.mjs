// The official client reads a template's definition: node template.mjs FILE BASE
import assert from 'node:assert/strict'
import { Template } from 'e2b'

const [file, base] = process.argv.slice(2)
const warnings = []
console.warn = (text) => warnings.push(text)
const json = JSON.parse(await Template.toJSON(Template().fromDockerfile(file), false))
assert.deepEqual(warnings, [])
assert.equal(json.fromImage, base)
const steps = json.steps.map((step) => [step.type, ...step.args].join(' '))
const install = steps.findIndex((step) => step.includes('apt-get install -y --no-install-recommends bash'))
assert.ok(install > 0, steps.join('\n'))
assert.equal(steps.slice(0, install).filter((step) => step.startsWith('USER ')).pop(), 'USER root')
if (base.startsWith('python')) assert.ok(steps.some((step) => step.includes('ENV A b')), steps.join('\n'))
console.log('all checks held')
