// The text/event-stream format (WHATWG HTML, 9.2), incrementally.

export interface ServerSentEvent {
  readonly event: string;
  readonly data: string;
  /** The last id seen on the stream, also when this event had none of its own. */
  readonly id: string;
}

export class EventStreamParser {
  #decoder = new TextDecoder();
  #line = "";
  #afterCr = false;
  #event = "";
  #data: string[] = [];
  #id = "";

  /** Feeds bytes, returns the events that became complete. */
  push(bytes: Uint8Array): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    for (const char of this.#decoder.decode(bytes, { stream: true })) {
      if (this.#afterCr) {
        this.#afterCr = false;
        if (char === "\n") continue;
      }
      if (char !== "\n" && char !== "\r") {
        this.#line += char;
        continue;
      }
      this.#afterCr = char === "\r";
      const line = this.#line;
      this.#line = "";
      const done = this.#take(line);
      if (done !== undefined) events.push(done);
    }
    return events;
  }

  #take(line: string): ServerSentEvent | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return undefined;
    const field = colon < 0 ? line : line.slice(0, colon);
    const raw = colon < 0 ? "" : line.slice(colon + 1);
    const value = raw.startsWith(" ") ? raw.slice(1) : raw;
    if (field === "event") this.#event = value;
    else if (field === "data") this.#data.push(value);
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return undefined;
  }

  #dispatch(): ServerSentEvent | undefined {
    const event = this.#event === "" ? "message" : this.#event;
    const lines = this.#data;
    this.#event = "";
    this.#data = [];
    return lines.length === 0 ? undefined : { event, data: lines.join("\n"), id: this.#id };
  }
}

export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const parser = new EventStreamParser();
  for await (const piece of body) yield* parser.push(piece);
}
