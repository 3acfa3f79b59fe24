// The TypeScript client of the Model Context Protocol in interactive episodes, with its default settings.
// Arguments: the server.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

async function connect() {
  const client = new Client({ name: "test", version: "1" });
  const transport = new StreamableHTTPClientTransport(new URL(process.argv[2] + "/env/tools/mcp"));
  await client.connect(transport);
  const note = async (text) => (await client.callTool({ name: "note", arguments: { text } })).content[0].text;
  return { client, transport, note };
}

const one = await connect();
const two = await connect();
assert.deepEqual((await one.client.listTools()).tools.map((tool) => tool.name), ["note", "submit"]);
assert.equal(await one.note("a"), '{"text":"a"}');
assert.equal(await two.note("b"), '{"text":"b"}');
assert.equal(await one.note("c"), '{"text":"a"} {"text":"c"}');
await one.transport.terminateSession();
await assert.rejects(
  new StreamableHTTPClientTransport(new URL(process.argv[2] + "/env/tools/mcp"), { sessionId: "none" }).send({ jsonrpc: "2.0", id: 1, method: "ping" }),
  /404|Unknown session_id/,
);
assert.ok((await two.client.callTool({ name: "submit", arguments: {} }))._meta.done);
await two.client.close();
console.log("all checks held");
