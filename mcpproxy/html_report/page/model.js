// The model: the traffic and the calls by column, and the payloads, which are decompressed when needed.

class Model {
  constructor(overview, traffic, calls, stderr, turns) {
    this.captures = overview.captures;
    this.rows = traffic.rows;
    this.count = traffic.rows.seq.length;
    this.calls = calls;
    this.stderr = stderr;
    this.turns = turns;
    this.cut = overview.payloads.cut;
    this.starts = overview.payloads.starts;
    this.findings = overview.findings;
    this.blocks = new Array(this.starts.length);
    this.reading = new Array(this.starts.length);
    this.words = new Array(this.count);
    const opened = this.captures.map((capture) => capture.opened_ms).filter((ms) => ms !== null);
    this.base = Math.min(...opened, Infinity);
    this.index(traffic.heads);
  }

  static async read(overview) {
    const names = ["data-traffic", "data-calls", "data-stderr", "data-turns"];
    return new Model(overview, ...(await Promise.all(names.map(packedBlock))));
  }

  index(heads) {
    this.rowOf = this.captures.map(() => new Map());
    this.callOf = this.captures.map(() => new Map());
    this.headOf = this.captures.map(() => new Map());
    this.findingsOf = this.captures.map(() => new Map());
    this.turnOf = this.captures.map(() => new Map());
    const { capture, seq, request_seq: requestSeq } = this.rows;
    for (let row = 0; row < this.count; row += 1) {
      const known = this.rowOf[capture[row]];
      for (const record of [seq[row], requestSeq[row]]) if (!known.has(record)) known.set(record, row);
    }
    for (const [place, number, payload] of heads) this.headOf[place].set(number, payload);
    this.calls.request.forEach((request, call) => this.callOf[this.calls.capture[call]].set(request, call));
    this.turns.turns.forEach(({ calls }, at) =>
      calls.forEach((call) => this.turnOf[call.capture].set(call.frame, at + 1)),
    );
    for (const group of this.findings) {
      for (const finding of group.findings) {
        const known = this.findingsOf[finding.capture];
        known.set(finding.frame, [...(known.get(finding.frame) ?? []), [group.rule, finding]]);
      }
    }
  }

  /** The row of a record, or of the last one before it; -1 if there is none. */
  nearest(capture, seq) {
    const known = this.rowOf[capture];
    for (let number = seq; known && number >= Math.max(0, seq - 1000); number -= 1) {
      if (known.has(number)) return known.get(number);
    }
    return -1;
  }

  /** A time of a capture on the clock shared by all captures, in microseconds since the first of them opened. */
  shared(capture, us) {
    const opened = this.captures[capture].opened_ms;
    return us + (opened === null || !Number.isFinite(this.base) ? 0 : (opened - this.base) * 1000);
  }

  /** The text of a payload. */
  async payload(number) {
    const at = this.blockOf(number);
    const texts = await this.block(at);
    return texts[number - this.starts[at]];
  }

  /** The same, if its block is decompressed; undefined otherwise. */
  payloadNow(number) {
    const at = this.blockOf(number);
    return this.blocks[at]?.[number - this.starts[at]];
  }

  /** All payloads of a block. */
  async block(at) {
    this.reading[at] ??= packedBlock(`data-payloads-${at}`);
    this.blocks[at] ??= await this.reading[at];
    return this.blocks[at];
  }

  /** Decompresses all payloads, for the filter, block by block. */
  async readAll() {
    for (let at = 0; at < this.starts.length; at += 1) {
      await this.block(at);
      await breath();
    }
  }

  blockOf(number) {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= number) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** What the filter searches in a row, apart from its payload. */
  wordsOf(row) {
    const { method, name, id, word, text, problem, rules } = this.rows;
    this.words[row] ??=
      `${method[row]} ${name[row]} ${id[row]} ${word[row]} ${text[row]} ${problem[row]} ${rules[row]}`.toLowerCase();
    return this.words[row];
  }
}
