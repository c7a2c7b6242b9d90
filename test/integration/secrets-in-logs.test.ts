// Secrets sent in every place that a client can put them, to the product as it runs detached: none may be found in
// what it printed, traced or wrote below its data directory, but for the files that are there to keep secrets.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startOtlpReceiver, type OtlpReceiver } from "@gpve/kit/testing/otlp-receiver.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RawConnection, type RawAnswer } from "../support/fuzz/raw-connection.ts";
import { apiOf, mainFile, nodeBinary, readCredentials, type Credentials } from "../support/gpve.ts";

const NAMES =
  "password new-password cipassword ticket vncticket otp CSRFPreventionToken PVEAPIToken PVEAuthCookie token secret key client-key api_key pass%77ord".split(
    " ",
  );
/** The files and folders that keep secrets, readable by nobody else. */
const KEPT = new Set(["credentials.json", "secrets"]);

let data: string;
let collector: OtlpReceiver;
let credentials: Credentials;
let printed = "";
const sent = new Map<string, string>();

const gpve = async (...args: string[]): Promise<void> => {
  const { stdout, stderr } = await exec(nodeBinary, [mainFile, ...args, "--data", data], {
    env: MINIMAL_ENV,
    timeoutMs: 60_000,
  });
  printed += stdout + stderr;
};

/** A secret that is sent once, so that what is found says where it came from. */
const secret = (place: string): string => {
  const text = `Zq7${sent.size.toString(36).padStart(4, "0")}xW9vK3`;
  sent.set(text, place);
  return text;
};

beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), "gpve-it-"));
  collector = await startOtlpReceiver();
  await gpve("up", "--detach", "--no-network", "--listen", "127.0.0.1:0", "--otlp", collector.url);
  credentials = readCredentials(data);
});
afterAll(async () => {
  await gpve("down").catch(() => undefined);
  await collector?.close();
  rmSync(data, { recursive: true, force: true });
});

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (folder === data && KEPT.has(entry.name)) return [];
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesBelow(path) : entry.isFile() ? [path] : [];
  });
}

async function raw(connection: RawConnection, request: string): Promise<RawAnswer | undefined> {
  const { answers } = await connection.exchange(Buffer.from(request, "latin1"), 1, 5000);
  return answers[0];
}

test("no secret is printed, traced or written down", async () => {
  const url = new URL(credentials.url);
  const ca = readFileSync(credentials.caFile);
  const endpoint = { host: url.hostname, port: Number(url.port), ca };
  const auth = `Authorization: PVEAPIToken=${credentials.token}\r\n`;
  const answered: number[] = [];
  const requests: string[] = [];
  const send = (request: string): void => void requests.push(request);
  const withBody = (method: string, path: string, type: string, body: string, head = auth): void =>
    send(
      `${method} ${path} HTTP/1.1\r\nHost: x\r\n${head}Content-Type: ${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
  const { data: nodes } = await apiOf(credentials)("GET", "/nodes");
  const { node } = (nodes as { node: string }[])[0] ?? { node: "" };
  const guest = `/api2/json/nodes/${node}/qemu`;
  const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
  const form = "application/x-www-form-urlencoded";

  // What is taken: a user's password, his new one, a guest's, and the logins with them.
  const [api, login] = [apiOf(credentials), apiOf(credentials, {})];
  const [first, second] = [secret("password of a user"), secret("new password of a user")];
  expect((await api("POST", "/access/users", { userid: "joe@pve", password: first })).status).toBe(200);
  expect((await login("POST", "/access/ticket", { username: "joe@pve", password: first })).status).toBe(200);
  const root = await login("POST", "/access/ticket", credentialsOfRoot());
  const { ticket, CSRFPreventionToken } = root.data as { ticket: string; CSRFPreventionToken: string };
  sent.set(ticket.slice(-40), "root's ticket");
  sent.set(CSRFPreventionToken.slice(-20), "root's CSRF token");
  const byTicket = apiOf(credentials, { Cookie: `PVEAuthCookie=${ticket}`, CSRFPreventionToken });
  const change = { userid: "joe@pve", password: second, "confirmation-password": credentials.password };
  expect((await byTicket("PUT", "/access/password", change)).status).toBe(200);
  const vm = { vmid: 120, name: "a", cipassword: secret("password of a guest") };
  expect((await byTicket("POST", `/nodes/${node}/qemu`, vm)).status).toBe(200);
  const made = await api("POST", "/access/users/joe@pve/token/t1");
  sent.set((made.data as { value: string }).value, "a new API token");
  sent.set(credentials.password, "root's first password");
  sent.set(credentials.token.slice(credentials.token.indexOf("=") + 1), "the first API token");

  for (const name of NAMES) {
    const paths = [
      "/api2/json/version",
      "/api2/json/nowhere",
      `${guest}/100/config`,
      "/api/v1/tenants",
      "/api/v1/nowhere",
      "/nowhere",
      "/",
    ];
    for (const path of paths)
      for (const head of [auth, ""])
        send(
          `GET ${path}?a=1&${name}=${secret(`query ${name} of ${path}`)} HTTP/1.1\r\nHost: x\r\n${head}\r\n`,
        );
    send(`DELETE /api2/json/pools/a?${name}=${secret("DELETE")} HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
    send(`BREW /api2/json/version?${name}=${secret("odd method")} HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
    send(`GET /api2/json/version?${name}=${secret("odd version")} HTTP/9.9\r\nHost: x\r\n\r\n`);
    for (const path of ["/api2/json/pools", "/api2/json/access/users", guest]) {
      const body = `userid=x%40pve&username=root%40pam&vmid=100&poolid=p&${name}=`;
      withBody("POST", path, form, body + secret(`form ${name} of ${path}`));
      const json = JSON.stringify({ username: "root@pam", [name]: secret(`JSON ${name} of ${path}`) });
      withBody("POST", path, "application/json", json, "");
      withBody("POST", path, "application/json", `${json.slice(0, -1)},`);
    }
    const object = { apiVersion: "gpve.io/v1", kind: "Tenant", metadata: { name: "a" } };
    for (const path of ["/api/v1/tenants", "/api/v1/plan", "/api/v1/apply"]) {
      const one = { ...object, spec: { [name]: secret(`${name} in a spec of ${path}`) } };
      const body = JSON.stringify(path.endsWith("tenants") ? one : { objects: [one] });
      withBody("POST", path, "application/json", body);
      withBody("POST", path, "application/json", `${body}]`);
    }
    for (const path of [`${guest}/100/vncwebsocket`, `${guest}/x/vncwebsocket`, "/nowhere"])
      send(
        `GET ${path}?port=5900&${name}=${secret(`websocket ${name} of ${path}`)} HTTP/1.1\r\nHost: x\r\n${auth}${upgrade}Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
      );
  }
  for (const name of ["password", "otp", "tfa-challenge"])
    for (const user of ["root@pam", "joe@pve"]) {
      const bad = { username: user, password: secret("bad login"), [name]: secret(`bad login, ${name}`) };
      withBody("POST", "/api2/json/access/ticket", form, new URLSearchParams(bad).toString(), "");
    }
  const headers = [
    `Authorization: PVEAPIToken=root@pam!nobody=${secret("token of nobody")}`,
    `Authorization: PVEAPIToken=${secret("no token at all")}`,
    `Authorization: Bearer ${secret("bearer")}`,
    `Authorization: Basic ${secret("basic")}`,
    `Cookie: PVEAuthCookie=${secret("cookie")}`,
    `Cookie: PVEAuthCookie=PVE:root@pam:6553F100::${secret("forged ticket")}`,
    `CSRFPreventionToken: 6553F100:${secret("CSRF token")}`,
  ];
  for (const header of headers)
    for (const path of ["/api2/json/pools", "/api/v1/tenants", "/nowhere"])
      withBody("POST", path, form, "poolid=p", `${header}\r\n`);
  send(`CONNECT pvespiceproxy:${secret("SPICE")}:100:n1:61000 HTTP/1.1\r\nHost: x\r\n\r\n`);
  // Failed logins are answered late: several at a time.
  const next = requests.values();
  await Promise.all(
    Array.from({ length: 12 }, async () => {
      const connection = new RawConnection(endpoint);
      for (const request of next) answered.push((await raw(connection, request))?.status ?? 0);
      connection.close();
    }),
  );

  await gpve("status");
  await gpve("down");
  // Every request was answered, and as it should be; what the server hung up on is in no log either.
  expect(answered.filter((status) => status >= 400).length).toBeGreaterThan(NAMES.length * 20);
  const places = [
    ["what was printed", printed],
    ["traces", JSON.stringify(collector.spans)],
    ...filesBelow(data).map((path) => [path.slice(data.length), readFileSync(path, "latin1")] as const),
  ] as const;
  expect(collector.spans.length).toBeGreaterThan(10);
  expect(places.map(([place]) => place).filter((place) => place.startsWith("/log/"))).not.toEqual([]);
  const found = places.flatMap(([place, text]) =>
    [...sent].filter(([value]) => text.includes(value)).map(([, from]) => `${from}: in ${place}`),
  );
  expect([...new Set(found)]).toEqual([]);
});

function credentialsOfRoot(): Record<string, string> {
  return { username: credentials.username, password: credentials.password };
}
