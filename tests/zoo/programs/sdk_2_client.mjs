// A client on the official TypeScript SDK of both eras, for the program or the URL that is given, with a mode of negotiation.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [target, mode] = process.argv.slice(2);
const isUrl = target.includes('://');
const way = isUrl ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: target });
const client = new Client({ name: 'zoo', version: '1.0.0' }, { versionNegotiation: { mode } });
await client.connect(way);
console.log(await client.listTools());
console.log(await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } }));
console.log(await client.listResources(), await client.listPrompts());
await client.close();
