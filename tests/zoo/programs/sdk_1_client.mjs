// A client on the official TypeScript SDK of the handshake era, for the program or the URL that is given.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const target = process.argv[2];
const isUrl = target.includes('://');
const way = isUrl ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: target });
const client = new Client({ name: 'zoo', version: '1.0.0' });
await client.connect(way);
console.log(await client.listTools());
console.log(await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } }));
console.log(await client.listResources(), await client.listPrompts(), await client.ping());
if (isUrl) await way.terminateSession();
await client.close();
