// A client on the official TypeScript SDK (version 2) that uses everything that a server offers, and prints what it got.
//
//     typescript_client.mjs MODE sse|http|stdio TARGET [ARGUMENT ...]
//
// MODE is that of the version negotiation: legacy, auto, or a revision. Results are what the SDK's schemas accepted.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [mode, kind, target, ...rest] = process.argv.slice(2);
const byItself = [];
const sorted = value =>
    Array.isArray(value) ? value.map(sorted)
    : value && typeof value === 'object' ? Object.fromEntries(Object.keys(value).sort().map(key => [key, sorted(value[key])]))
    : value;
const text = (what, value) => JSON.stringify([what, sorted(value) ?? null]);
const note = (what, value) => console.log(text(what, value));
const keep = (what, value) => byItself.push(text(what, value));
const get = async (what, promise) => {
    try {
        const result = await promise;
        note(what, result);
        return result;
    } catch (error) {
        note(what, { error: error.constructor.name, code: error.code, message: String(error.message).slice(0, 300), data: error.data });
    }
};

const CALLS = {
    'echo': [{ message: 'hello' }, { message: 'naïve 🥚 \u2028' }, { message: 'hello' }, {}],
    'get-sum': [{ a: 2, b: 3 }, { a: 2.5, b: 1e300 }],
    'get-tiny-image': [{}],
    'get-annotated-message': [{ messageType: 'error', includeImage: true }],
    'get-resource-links': [{ count: 3 }],
    'get-resource-reference': [{ resourceType: 'Text', resourceId: 3 }],
    'get-structured-content': [{ location: 'New York' }],
    'get-roots-list': [{}],
    'trigger-long-running-operation': [{ duration: 0.4, steps: 4 }],
    'trigger-sampling-request': [{ prompt: 'hi', maxTokens: 10 }],
    'trigger-elicitation-request': [{}],
    'trigger-url-elicitation': [{ url: 'https://example.com/', message: 'look' }],
    'toggle-subscriber-updates': [{}, {}],
    'count': [{ steps: 0 }, { steps: 5 }, { steps: 5 }],
    'fail': [{}],
    'greet': [{}],
    'dream': [{}],
    'tell': [{ text: 'from the tool' }],
    'roots': [{}],
    'change': [{}],
    'part': [{}],
    'look': [{ text: 'a' }, { text: 'b' }, { text: 'a' }],
    'show': [{}],
    'add': [{ a: 1, b: 2 }, { a: 1.5, b: -2 }],
    'nothing-is-called-this': [{}],
};
const READS = ['demo://resource/dynamic/text/1', 'note://by-name/x', 'note://two', 'test://none'];

const client = new Client(
    { name: 'proof', version: '1' },
    {
        capabilities: { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } },
        versionNegotiation: { mode },
    },
);
client.setRequestHandler('sampling/createMessage', request => {
    keep('sampling', request.params);
    return { role: 'assistant', content: { type: 'text', text: 'sampled' }, model: 'm', stopReason: 'endTurn' };
});
client.setRequestHandler('elicitation/create', request => {
    keep('elicitation', request.params);
    return request.params.mode === 'url' ? { action: 'decline' } : { action: 'accept', content: { name: 'Ada' } };
});
client.setRequestHandler('roots/list', () => {
    keep('roots', null);
    return { roots: [{ uri: 'file:///work', name: 'work' }] };
});
client.fallbackNotificationHandler = async notification => keep('notification', notification);
for (const method of ['notifications/message', 'notifications/resources/updated', 'notifications/tools/list_changed',
    'notifications/prompts/list_changed', 'notifications/resources/list_changed'])
    client.setNotificationHandler(method, notification => keep(method, notification.params));
client.onerror = error => keep('error', String(error).slice(0, 300));

const walk = async (what, fetch, member) => {
    const found = [];
    let cursor;
    do {
        const page = await get(what, fetch(cursor === undefined ? undefined : { cursor }));
        if (!page) break;
        found.push(...page[member]);
        cursor = page.nextCursor;
    } while (cursor !== undefined && found.length < 10_000);
    return found;
};
// The SDK checks arguments of tools that it has listed; every page is fetched by hand, without its cache.
const call = async (name, args, quiet) => {
    const progress = [];
    const asked = client.callTool({ name, arguments: args }, { onprogress: seen => progress.push(seen), timeout: 60_000 });
    if (quiet) return [await asked, progress];
    await get(`call ${name} ${JSON.stringify(args)}`, asked);
    note(`progress ${name} ${JSON.stringify(args)}`, progress);
};

// The SDK asks a program of its own what it speaks, unless the transport is another class.
class Stdio extends StdioClientTransport {}
const way = kind === 'stdio' ? new Stdio({ command: target, args: rest, stderr: 'ignore' })
    : kind === 'sse' ? new SSEClientTransport(new URL(target)) : new StreamableHTTPClientTransport(new URL(target));
try {
    await client.connect(way);
    const offered = client.getServerCapabilities() ?? {};
    note('server', [client.getServerVersion(), offered, client.getInstructions()]);
    const legacy = mode === 'legacy';
    if (legacy) await get('ping', client.ping());
    if (legacy && offered.logging) await get('level', client.setLoggingLevel('debug'));
    const tools = offered.tools ? await walk('tools', params => client.request({ method: 'tools/list', params }), 'tools') : [];
    const resources = offered.resources ? await walk('resources', params => client.request({ method: 'resources/list', params }), 'resources') : [];
    if (offered.resources) await walk('templates', params => client.request({ method: 'resources/templates/list', params }), 'resourceTemplates');
    const prompts = offered.prompts ? await walk('prompts', params => client.request({ method: 'prompts/list', params }), 'prompts') : [];
    const names = new Set([...tools.map(tool => tool.name), 'nothing-is-called-this']);
    for (const [name, variants] of Object.entries(CALLS))
        for (const args of names.has(name) ? variants : []) await call(name, args);
    if (offered.resources)
        for (const uri of [...resources.slice(0, 4).map(resource => resource.uri), ...READS])
            await get(`read ${uri}`, client.readResource({ uri }));
    for (const prompt of prompts) {
        const given = Object.fromEntries((prompt.arguments ?? []).map(argument => [argument.name, 'x']));
        await get(`prompt ${prompt.name}`, client.getPrompt({ name: prompt.name, arguments: given }));
        await get(`prompt ${prompt.name} bare`, client.getPrompt({ name: prompt.name }));
    }
    const last = prompts.at(-1);
    if (offered.completions && last?.arguments?.length)
        for (const value of ['', 'b', 'be', 'zz'])
            await get(`complete ${value}`, client.complete({ ref: { type: 'ref/prompt', name: last.name }, argument: { name: last.arguments[0].name, value } }));
    const several = [
        ...(names.has('count') ? [7, 3, 5, 1].map(steps => ['count', { steps }]) : []),
        ...(names.has('echo') ? [0, 1, 2, 3].map(number => ['echo', { message: `m${number}` }]) : []),
    ];
    note('together', await Promise.all(several.map(([name, args]) => call(name, args, true).catch(error => String(error)))));
    const uri = resources.find(resource => resource.uri === 'note://groceries')?.uri ?? resources[0]?.uri;
    if (legacy && uri && offered.resources.subscribe) {
        await get('subscribe', client.subscribeResource({ uri }));
        if (names.has('change')) await call('change', {});
        await get('unsubscribe', client.unsubscribeResource({ uri }));
    } else if (!legacy && uri && names.has('change')) {
        const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
        note('listening', subscription.honored ?? subscription.filter ?? null);
        await call('change', {});
        await new Promise(done => setTimeout(done, 500));
        await subscription.close();
    }
    if (names.has('wait')) {
        const leave = new AbortController();
        setTimeout(() => leave.abort(), 500);
        await get('wait', client.callTool({ name: 'wait', arguments: {} }, { signal: leave.signal, onprogress: seen => keep('progress of wait', seen) }));
        await get('after the cancellation', client.request({ method: 'tools/list' }));
    }
    if (legacy) {
        await client.sendRootsListChanged();
        await get('ping', client.ping());
    }
    if (kind === 'http' && legacy) await way.terminateSession().catch(error => keep('delete', String(error)));
} catch (error) {
    note('end', String(error.stack).slice(0, 600));
}
await client.close();
for (const line of byItself.sort()) console.log(line);
