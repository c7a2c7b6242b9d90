// SPICE to a real QEMU through the proxy: HTTP CONNECT, TLS by our CA, the link handshake with its encrypted password.
import { constants, createPublicKey, publicEncrypt } from "node:crypto";
import { existsSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rfbReader } from "@gpve/cli/commands/vm/console/rfb-greeting.ts";
import { type Api, apiOf, firstNode, type Gpve, startGpve } from "../support/gpve.ts";
import { waitTask } from "../support/tasks.ts";

const hasQemu = existsSync("/usr/bin/qemu-system-x86_64");
if (!hasQemu) console.warn("SKIPPED: no QEMU; get it with: apt-get install qemu-system-x86 qemu-utils");

interface ViewerFile {
  readonly type: string;
  readonly title: string;
  readonly host: string;
  readonly proxy: string;
  readonly password: string;
  readonly "tls-port": number;
  readonly ca: string;
  readonly "host-subject": string;
}

let gpve: Gpve;
let api: Api;
let vm: string;

beforeAll(async () => {
  gpve = await startGpve();
  api = apiOf(gpve.credentials);
  const node = await firstNode(api);
  vm = `/nodes/${node}/qemu/100`;
  if (!hasQemu) return;
  const values = { vmid: 100, name: "screen", memory: 64, vga: "qxl" };
  expect((await waitTask(api, (await api("POST", `/nodes/${node}/qemu`, values)).data)).exitstatus).toBe(
    "OK",
  );
  expect((await waitTask(api, (await api("POST", `${vm}/status/start`)).data)).exitstatus).toBe("OK");
});
afterAll(async () => {
  if (hasQemu) await waitTask(api, (await api("POST", `${vm}/status/stop`)).data);
  await gpve.stop();
});

/** As a viewer does it: through the proxy, then TLS whose certificate has the stated subject. */
async function dial(file: ViewerFile): Promise<TLSSocket | string> {
  const { hostname, port } = new URL(file.proxy);
  const socket = connectTcp(Number(port), hostname);
  socket.write(`CONNECT ${file.host}:${file["tls-port"]} HTTP/1.0\r\n\r\n`);
  const answer = await new Promise<string>((resolve) =>
    socket.once("data", (data) => resolve(data.toString())),
  );
  if (answer !== "HTTP/1.0 200 OK\r\n\r\n") return answer;
  const ca = file.ca.replaceAll("\\n", "\n");
  const secure = connectTls({ socket, ca, checkServerIdentity: () => undefined });
  await new Promise<void>((resolve, reject) => {
    secure.once("secureConnect", resolve);
    secure.once("error", reject);
  });
  expect(secure.authorized).toBe(true);
  const { subject } = secure.getPeerCertificate();
  expect(file["host-subject"]).toBe(`O=${subject.O},CN=${subject.CN}`);
  return secure;
}

/** The main channel's link, as in SPICE 2.2: our message, theirs with a key, our password, their verdict. */
async function link(file: ViewerFile, password: string): Promise<number> {
  const secure = await dial(file);
  if (typeof secure === "string") throw new Error(secure);
  const body = Buffer.alloc(18 + 4);
  body.writeUInt8(1, 4); // the main channel
  body.writeUInt32LE(1, 6); // one word of common capabilities
  body.writeUInt32LE(18, 14); // which begin here
  body.writeUInt32LE(0b1001, 18); // chooses authentication by SPICE; mini headers
  const head = Buffer.alloc(16);
  head.write("REDQ", 0, "latin1");
  head.writeUInt32LE(2, 4);
  head.writeUInt32LE(2, 8);
  head.writeUInt32LE(body.length, 12);
  secure.write(Buffer.concat([head, body]));
  const reader = rfbReader(secure);
  const reply = await reader.take(16);
  expect(reply.toString("latin1", 0, 4)).toBe("REDQ");
  const rest = await reader.take(reply.readUInt32LE(12));
  expect(rest.readUInt32LE(0)).toBe(0);
  const key = createPublicKey({ key: rest.subarray(4, 4 + 162), format: "der", type: "spki" });
  const method = Buffer.alloc(4);
  method.writeUInt32LE(1);
  const secret = publicEncrypt(
    { key, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: "sha1" },
    Buffer.from(`${password}\0`),
  );
  secure.write(Buffer.concat([rest.length > 174 ? method : Buffer.alloc(0), secret]));
  const verdict = (await reader.take(4)).readUInt32LE(0);
  secure.destroy();
  return verdict;
}

describe.skipIf(!hasQemu)("SPICE", () => {
  const ask = async (): Promise<ViewerFile> => (await api("POST", `${vm}/spiceproxy`)).data;

  test("is reached with the ticket and the password of the answer, and with no other", async () => {
    const file = await ask();
    expect(file).toMatchObject({
      type: "spice",
      title: "VM 100 - screen",
      host: expect.stringMatching(/^pvespiceproxy:[0-9a-f]{8}:100:[^:]+::[0-9a-f]{40}$/),
      proxy: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      "delete-this-file": 1,
      "secure-attention": "Ctrl+Alt+Ins",
      "toggle-fullscreen": "Shift+F11",
      "release-cursor": "Ctrl+Alt+R",
    });
    // 0 = welcome, 7 = permission denied
    expect(await link(file, file.password)).toBe(0);
    expect(await link(file, file.password)).toBe(0);
    expect(await link(file, "wrong")).toBe(7);
    const forged = { ...file, host: file.host.replace(/.$/, (last) => (last === "0" ? "1" : "0")) };
    expect(await dial(forged)).toContain("401 invalid ticket");
    // The latest offer's password is the only one.
    await ask();
    expect(await link(file, file.password)).toBe(7);
  });

  test("is refused for a VM without it", async () => {
    const { data } = await api("GET", "/cluster/nextid");
    const other = vm.replace(/100$/, String(data));
    await waitTask(api, (await api("POST", vm.replace(/\/100$/, ""), { vmid: data, memory: 64 })).data);
    expect(await api("POST", `${other}/spiceproxy`)).toMatchObject({
      status: 500,
      reason: `VM ${String(data)} not running`,
    });
    await waitTask(api, (await api("POST", `${other}/status/start`)).data);
    expect(await api("POST", `${other}/spiceproxy`)).toMatchObject({ status: 500, reason: "no spice port" });
    await waitTask(api, (await api("POST", `${other}/status/stop`)).data);
  });
});
