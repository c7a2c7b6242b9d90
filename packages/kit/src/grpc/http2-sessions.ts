// Connect's keeper of HTTP/2 sessions, whose sessions end nobody but themselves. It destroys one that is idle when the peer
// says GOAWAY, or that does not answer a ping, with an error that Node tells only when the socket has closed. Whoever
// asked for a line in between has made it forget that session, and an error that nobody listens to ends the process
// (connect-es #1768).
import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import { Http2SessionManager } from "@connectrpc/connect-node";

export class Http2Sessions extends Http2SessionManager {
  readonly #heard = new WeakSet<ClientHttp2Session>();

  override async connect(): ReturnType<Http2SessionManager["connect"]> {
    const state = await super.connect();
    // Not shown otherwise while there is no stream on it.
    const { conn } = Reflect.get(this, "s") as { readonly conn?: ClientHttp2Session | Promise<unknown> };
    if (conn !== undefined && !(conn instanceof Promise)) this.#listen(conn);
    return state;
  }

  override async request(...args: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    const stream = await super.request(...args);
    if (stream.session !== undefined) this.#listen(stream.session as ClientHttp2Session);
    return stream;
  }

  #listen(session: ClientHttp2Session): void {
    if (this.#heard.has(session)) return;
    this.#heard.add(session);
    session.on("error", () => {
      // The manager has its own ear as long as it uses the session; streams on it have theirs.
    });
  }
}
