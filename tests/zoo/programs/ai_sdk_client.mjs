// A client on the library AI SDK, over stdio.
import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioTransport } from '@ai-sdk/mcp/mcp-stdio';

const client = await createMCPClient({ transport: new StdioTransport({ command: process.argv[2] }) });
console.log(Object.keys(await client.tools()));
await client.close();
