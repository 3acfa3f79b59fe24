// The second generation of the TypeScript client of the Model Context Protocol in interactive episodes, with its default settings and where it looks
// for the newest version of the protocol first.
// Arguments: the server.
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

for (const options of [{}, { versionNegotiation: { mode: "auto" } }]) {
  const clients = [];
  for (let i = 0; i < 2; i++) {
    const client = new Client({ name: "test", version: "1" }, options);
    const transport = new StreamableHTTPClientTransport(new URL(process.argv[2] + "/env/tools/mcp"));
    await client.connect(transport);
    assert.equal(client.getNegotiatedProtocolVersion(), "2025-11-25");
    clients.push({ transport, client, note: async (text) => (await client.callTool({ name: "note", arguments: { text } })).content[0].text });
  }
  const [one, two] = clients;
  assert.equal(await one.note("a"), '{"text":"a"}');
  assert.equal(await two.note("b"), '{"text":"b"}');
  assert.equal(await one.note("c"), '{"text":"a"} {"text":"c"}');
  await one.transport.terminateSession();
  assert.ok((await two.client.callTool({ name: "submit", arguments: {} }))._meta.done);
  await two.client.close();
}
console.log("all checks held");
