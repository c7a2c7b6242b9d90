import { parameterError } from "@gpve/domain/request/failures.ts";
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, request, type Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { AgentCall } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent, type FakeAgentAnswers } from "@gpve/domain/node/testing/fake-agent.ts";
import { decideAnything } from "@gpve/domain/access/testing/decided.ts";
import { nodeCalls } from "../../../testing/node-calls.ts";
import { AgentUploads } from "../../../application/node/agent-uploads.ts";
import { createEntry } from "../entry.ts";
import type { PveApiDeps } from "./ports.ts";
import { createPveApi } from "./pve-api.ts";
import { noPlaces } from "../../../testing/quiet-kinds.ts";

let directory = "";
let server: Server;
let mayUpload = true;
let agentAnswer: () => unknown = () => "UPID:x";
const calls: AgentCall[] = [];
const delays: number[] = [];

/** Free space of the node, as the fake agent tells it. */
let room = Number.MAX_SAFE_INTEGER;
let made = 0;

const fakeTunnel: NonNullable<FakeAgentAnswers["open"]> = async ({ decision, params }, input) => {
  expect(decision).toMatchObject({
    route: "TUNNEL /gpve/nodes/{node}/storage/{storage}/upload",
    actor: { authid: "joe@pve" },
  });
  expect(decision.judged["storage"]).toBe("local");
  const { length, discard } = params as { length: number; discard?: string };
  if (discard !== undefined) rmSync(discard);
  if (length > room) throw new AppError("capacity.exceeded", "not enough space", { pveStatus: 500 });
  made += 1;
  const path = join(directory, `upload-${made}`);
  return { opened: { path }, output: discard === undefined ? fakeStore(path, input) : nothing() };
};

/** Rejects at once when the disk is full, as a node does. */
async function* fakeStore(path: string, input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    writeFileSync(path, "");
    for await (const chunk of input) {
      if ((bytes += chunk.length) > room) throw new AppError("capacity.exceeded", "no space left");
      appendFileSync(path, chunk);
    }
  } catch (err) {
    rmSync(path, { force: true });
    throw err;
  }
  yield Buffer.from(JSON.stringify({ bytes: lying ?? bytes }));
}
let lying: number | undefined;

async function* nothing(): AsyncGenerator<Uint8Array> {}

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "gpve-upload-"));
  const log = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
  };
  const agents = {
    connection: (node: string) =>
      node === "n9"
        ? undefined
        : new FakeAgent({
            node,
            answer: (call) => {
              calls.push(call);
              return { data: agentAnswer() };
            },
            ...(node === "deaf" ? {} : { open: fakeTunnel }),
          }),
  };
  const deps: PveApiDeps = {
    authenticate: async () => ({ actor: { userid: "joe@pve", authid: "joe@pve" }, via: "token" }),
    accessOf: () => ({ privileges: () => new Map(), has: () => mayUpload, require: () => undefined }),
    decide: (route, params, subject) => {
      if (!mayUpload) {
        throw new AppError(
          "access.denied",
          `Permission check failed (/storage/${String(params["storage"])}, x)`,
        );
      }
      return decideAnything(route, params, subject);
    },
    handlers: {},
    calls: nodeCalls(agents),
    localNode: "n1",
    knowsNode: (node) => node === "n1",
    uploads: new AgentUploads({ calls: nodeCalls(agents), newRequestId: () => "r2" }),
    fresh: async () => undefined,
    placement: noPlaces,
    ageSeconds: () => undefined,
    ready: () => undefined,
    audit: async () => undefined,
    observe: () => undefined,
    trace: (_name, _attributes, run) => run(undefined),
    log,
    newRequestId: () => "r1",
    delay: async (ms) => void delays.push(ms),
  };
  const pve = createPveApi(deps);
  server = createServer(createEntry({ isProxy: () => false, pve, v1: async () => undefined, log }));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  server.close();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => {
  mayUpload = true;
  agentAnswer = () => "UPID:x";
  calls.length = 0;
  delays.length = 0;
});

function send(
  body: Buffer,
  {
    node = "n1",
    headers = {},
    length = body.length,
  }: { node?: string; headers?: Record<string, string>; length?: number } = {},
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const req = request(
      {
        port: (server.address() as AddressInfo).port,
        method: "POST",
        path: `/api2/json/nodes/${node}/storage/local/upload`,
        headers: { "content-type": "multipart/form-data; boundary=b", "content-length": length, ...headers },
      },
      (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("end", () => resolve({ status: res.statusCode ?? 0, text: Buffer.concat(chunks).toString() }));
      },
    );
    req.on("error", reject);
    req.end(body);
  });
}

function form(fields: Readonly<Record<string, string>>, file?: { name: string; body: string }): Buffer {
  let text = "";
  for (const [name, value] of Object.entries(fields)) {
    text += `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
  }
  if (file !== undefined) {
    text += `--b\r\nContent-Disposition: form-data; name="filename"; filename="${file.name}"\r\nContent-Type: application/octet-stream\r\n\r\n${file.body}\r\n`;
  }
  return Buffer.from(`${text}--b--\r\n`);
}

describe("uploading", () => {
  it("hands the stored body and its fields to the node", async () => {
    const sent = form(
      { content: "iso", "checksum-algorithm": "md5", checksum: "1" },
      { name: "a.iso", body: "bytes" },
    );
    expect(await send(sent)).toEqual({ status: 200, text: '{"data":"UPID:x"}' });
    const params = calls[0]?.params ?? {};
    expect(calls[0]?.decision.route).toBe("POST /nodes/{node}/storage/{storage}/upload");
    expect(params).toMatchObject({
      content: "iso",
      filename: "a.iso",
      checksum: "1",
      storage: "local",
      node: "n1",
    });
    const path = String(calls[0]?.params["tmpfilename"]);
    expect(readFileSync(path, "utf8")).toBe("bytes");
    rmSync(path);
  });

  it("stores the file under the name in a field beside it, as go-proxmox sends one", async () => {
    await send(form({ filename: "b.iso", content: "iso" }, { name: "a.iso", body: "bytes" }));
    expect(calls[0]?.params).toMatchObject({ content: "iso", filename: "b.iso" });
    const path = String(calls[0]?.params["tmpfilename"]);
    expect(readFileSync(path, "utf8")).toBe("bytes");
    rmSync(path);
  });

  it("keeps nothing when the node refuses", async () => {
    agentAnswer = () => {
      throw parameterError({ filename: "wrong file extension" });
    };
    const answer = await send(form({ content: "iso" }, { name: "a.txt", body: "x" }));
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.text)).toMatchObject({ errors: { filename: "wrong file extension" } });
    expect(readdirSync(directory)).toEqual([]);
  });

  it("checks the permission before it reads, slowly and without a word", async () => {
    mayUpload = false;
    expect(await send(form({ content: "iso" }, { name: "a.iso", body: "x" }))).toEqual({
      status: 403,
      text: "",
    });
    expect(delays).toEqual([3000]);
    expect(calls).toEqual([]);
  });

  it.each([
    ["an unknown field", form({ content: "iso", foo: "1" }, { name: "a.iso", body: "x" })],
    [
      "a field of its own about where the file lies",
      form({ tmpfilename: "/etc/passwd" }, { name: "a.iso", body: "x" }),
    ],
    ["a field twice", Buffer.concat([form({ content: "iso" }).subarray(0, -7), form({ content: "iso" })])],
    [
      "two names beside the file",
      Buffer.concat([form({ filename: "x" }).subarray(0, -7), form({ filename: "y" })]),
    ],
    ["an endless field", form({ content: "x".repeat(5000) })],
    ["a file without a name", form({ filename: "x" })],
    ["a cut body", form({ content: "iso" }).subarray(0, -6)],
  ])("says only `upload failed` to %s", async (_what, body) => {
    expect(await send(body)).toEqual({ status: 500, text: "upload failed" });
    expect(readdirSync(directory)).toEqual([]);
    expect(calls).toEqual([]);
  });

  it("needs a boundary", async () => {
    const answer = await send(form({}), { headers: { "content-type": "multipart/form-data" } });
    expect(answer).toEqual({ status: 500, text: "upload failed" });
  });

  it("reaches other nodes, and says which take nothing", async () => {
    const body = form({ content: "iso" }, { name: "a.iso", body: "x" });
    expect((await send(body, { node: "n2" })).status).toBe(200);
    rmSync(String(calls[0]?.params["tmpfilename"]));
    expect((await send(body, { node: "deaf" })).text).toContain("node deaf offers no tunnels");
    expect((await send(body, { node: "n9" })).text).toContain("hostname lookup 'n9' failed");
  });

  it("leaves nothing of a body that does not fit, or arrives cut", async () => {
    const body = form({ content: "iso" }, { name: "a.iso", body: "x".repeat(500_000) });
    room = 100;
    expect((await send(body)).text).toContain("not enough space");
    lying = 7;
    room = Number.MAX_SAFE_INTEGER;
    expect((await send(body)).text).toContain("node 'n1' stored 7 of 500000 bytes");
    lying = undefined;
    expect(readdirSync(directory)).toEqual([]);
    expect(calls).toEqual([]);
  });

  it("answers a client that sends everything before it listens", async () => {
    const body = form({ content: "iso" }, { name: "a.iso", body: "x".repeat(30_000_000) });
    const { port } = server.address() as AddressInfo;
    const socket = connect(port, "127.0.0.1");
    const head = `POST /api2/json/nodes/n9/storage/local/upload HTTP/1.1\r\nHost: x\r\n`;
    socket.write(
      `${head}Content-Type: multipart/form-data; boundary=B\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    socket.pause();
    await new Promise<void>((resolve, reject) => {
      socket.once("error", reject);
      socket.write(body, () => resolve());
    });
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    expect(text).toMatch(/^HTTP\/1.1 500 [^]*Connection: close[^]*hostname lookup 'n9' failed/);
  });

  it("lets no client name a file of the node in a plain form", async () => {
    const answer = await send(Buffer.from("content=iso&filename=a.iso&tmpfilename=/etc/passwd"), {
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect(answer.status).toBe(200);
    expect(calls[0]?.params["tmpfilename"]).toBeUndefined();
  });

  it("takes a body larger than any other request may have", async () => {
    const body = form({ content: "iso" }, { name: "a.iso", body: "x".repeat(3_000_000) });
    expect((await send(body)).status).toBe(200);
    const path = String(calls[0]?.params["tmpfilename"]);
    expect(existsSync(path) && readFileSync(path).length).toBe(3_000_000);
    rmSync(path);
  });
});
