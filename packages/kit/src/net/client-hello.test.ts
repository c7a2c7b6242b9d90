import { createServer, type AddressInfo, type Socket } from "node:net";
import { once } from "node:events";
import { connect } from "node:tls";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { peekConnection } from "./client-hello.ts";

/** What a real client says first. */
async function helloOf(options: { servername?: string; ALPNProtocols?: string[] }): Promise<Buffer> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const client = connect({ host: "127.0.0.1", port, ...options });
  client.on("error", () => undefined);
  const [socket] = (await once(server, "connection")) as [Socket];
  const [bytes] = (await once(socket, "data")) as [Buffer];
  client.destroy();
  socket.destroy();
  server.close();
  return bytes;
}

/** The same words in records of so many bytes, as a client may send them. */
function inRecords(bytes: Buffer, size: number): Buffer {
  const body = bytes.subarray(5);
  const parts: Buffer[] = [];
  for (let at = 0; at < body.length; at += size) {
    const part = body.subarray(at, at + size);
    const head = Buffer.from(bytes.subarray(0, 5));
    head.writeUInt16BE(part.length, 3);
    parts.push(head, part);
  }
  return Buffer.concat(parts);
}

describe("a client's first message", () => {
  test("names the server and what is spoken, whole, in pieces and over several records", async () => {
    const hello = await helloOf({ servername: "Demo.default.vc.gpve", ALPNProtocols: ["h2", "http/1.1"] });
    const said = { kind: "tls", alpn: ["h2", "http/1.1"], serverName: "demo.default.vc.gpve" };
    expect(peekConnection(hello)).toEqual(said);
    expect(peekConnection(inRecords(hello, 50))).toEqual(said);
    for (let length = 0; length < hello.length; length += 7)
      expect(peekConnection(hello.subarray(0, length))).toEqual({ kind: "more" });
  });

  test("names nobody where the client does not", async () => {
    expect(peekConnection(await helloOf({}))).toEqual({ kind: "tls", alpn: [], serverName: "" });
  });

  test("is not what is no TLS, and no bytes break the reader", () => {
    expect(peekConnection(Buffer.from("GET / HTTP/1.1"))).toEqual({ kind: "plain" });
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        const text = Buffer.concat([Buffer.from([22, 3, 1, 0, bytes.length % 256]), Buffer.from(bytes)]);
        expect(["tls", "more"]).toContain(peekConnection(text).kind);
      }),
    );
  });

  test("whose name is longer than it says names nobody", async () => {
    const hello = await helloOf({ servername: "demo.example" });
    const at = hello.indexOf("demo.example");
    hello.writeUInt16BE(200, at - 2);
    expect(peekConnection(hello)).toMatchObject({ kind: "tls", serverName: "" });
  });
});
