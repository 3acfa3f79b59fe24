// The TypeScript client of the Model Context Protocol with its default settings.
// Arguments: the server.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2] + "/mcp")));
assert.equal(client.getServerVersion().name, "opencode_env");
await client.ping();

const { tools } = await client.listTools();
const run = tools.find((tool) => tool.name === "run_rollout");
assert.deepEqual(run.inputSchema.required, ["instruction"]);

const ran = await client.callTool({ name: "run_rollout", arguments: { endpoint: "vllm", instruction: "x", task_id: "m" } });
assert.ok(!ran.isError, JSON.stringify(ran));
const result = JSON.parse(ran.content[0].text);
assert.equal(result.task_id, "m");
assert.equal(result.outcome, "completed");

const again = await client.callTool({ name: "finalize_rollout", arguments: { rollout_id: result.rollout_id } });
assert.deepEqual(JSON.parse(again.content[0].text), result);

const notes = [];
await client.callTool({ name: "run_rollout", arguments: { endpoint: "vllm", instruction: "x" } }, undefined, {
  onprogress: (note) => notes.push(note.message),
});
assert.ok(notes[0].startsWith("run_rollout"), notes);

await assert.rejects(client.callTool({ name: "get_state", arguments: { rollout_id: 5 } }), /rollout_id/);
await assert.rejects(client.callTool({ name: "nope", arguments: {} }), /nope/);
await client.ping();
await client.close();
console.log("all checks held");
