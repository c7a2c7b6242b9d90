// The documented answer to each kind of bad input (docs/reference/http.md), on the product as it runs.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { etcdMissing, startEtcd, type EtcdCluster } from "@gpve/store/testing/etcd-cluster.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RawConnection, type Endpoint, type RawAnswer } from "../support/fuzz/raw-connection.ts";
import {
  apiOf,
  loginHeaders,
  mainFile,
  nodeBinary,
  startGpve,
  type Api,
  type Gpve,
} from "../support/gpve.ts";
import { startParts, type Parts } from "../support/parts.ts";

const isRoot = process.getuid?.() === 0;
const JSON_TYPE = { "Content-Type": "application/json" };

describe("a running server", () => {
  let gpve: Gpve;
  let api: Api;
  let v1: Api;
  let endpoint: Endpoint;
  let auth: string;
  beforeAll(async () => {
    gpve = await startGpve();
    api = apiOf(gpve.credentials);
    v1 = apiOf(gpve.credentials, undefined, "/api/v1");
    const port = Number(new URL(gpve.credentials.url).port);
    endpoint = { host: "127.0.0.1", port, ca: readFileSync(gpve.credentials.caFile) };
    auth = `Authorization: PVEAPIToken=${gpve.credentials.token}\r\n`;
  });
  afterAll(() => gpve?.stop());

  async function raw(request: string | Buffer): Promise<RawAnswer> {
    const connection = new RawConnection(endpoint);
    const bytes = typeof request === "string" ? Buffer.from(request, "latin1") : request;
    const { answers } = await connection.exchange(bytes, 1, 20_000);
    connection.close();
    return answers[0] ?? { status: 0, reason: "", head: "", body: "" };
  }

  test("malformed JSON and forms", async () => {
    const broken = await api("POST", "/pools", {}, JSON_TYPE, '{"poolid":');
    expect([broken.status, broken.reason]).toEqual([500, "malformed JSON string in request body"]);
    const invalid = await v1("POST", "/tenants", {}, JSON_TYPE, '{"kind":');
    expect([invalid.status, (JSON.parse(invalid.text) as { code: string }).code]).toEqual([
      400,
      "request.invalid",
    ]);
    const form = await api("POST", "/access/groups", {}, {}, "groupid=%zz&&;=;");
    expect([form.status, form.reason]).toEqual([400, "Parameter verification failed."]);
  });

  test("wrong types and unknown parameters", async () => {
    const wrong = await api("PUT", "/access/users/root@pam", { enable: "maybe", nonsense: 1 });
    expect(wrong.status).toBe(400);
    expect(wrong.json.errors).toMatchObject({
      enable: "type check ('boolean') failed - got 'maybe'",
      nonsense: "property is not defined in schema and the schema does not allow additional properties",
    });
    const v1Wrong = await v1(
      "POST",
      "/tenants",
      {},
      JSON_TYPE,
      '{"apiVersion":"gpve.io/v1","kind":"Tenant","metadata":7}',
    );
    expect(v1Wrong.status).toBe(400);
  });

  test("oversized bodies and headers, and too many of them", async () => {
    const large = `POST /api2/json/pools HTTP/1.1\r\n${auth}Content-Type: application/json\r\nContent-Length: 600000\r\n\r\n`;
    expect(await raw(large)).toMatchObject({ status: 501, reason: "for data too large" });
    const problem = await v1("POST", "/tenants", {}, JSON_TYPE, `"${"x".repeat(600_000)}"`);
    expect(problem.status).toBe(413);
    const header = `GET /api2/json/version HTTP/1.1\r\n${auth}X: ${"y".repeat(9000)}\r\n\r\n`;
    expect((await raw(header)).status).toBe(431);
    const many = Array.from({ length: 70 }, (_, at) => `X-${at}: 1\r\n`).join("");
    expect(await raw(`GET /api2/json/version HTTP/1.1\r\n${auth}${many}\r\n`)).toMatchObject({
      status: 431,
      reason: "Too many http header lines",
    });
  });

  test("invalid UTF-8", async () => {
    const body = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    const request = (path: string): Buffer =>
      Buffer.concat([
        Buffer.from(
          `POST ${path} HTTP/1.1\r\n${auth}Content-Type: application/json\r\nContent-Length: 7\r\n\r\n`,
        ),
        body,
      ]);
    expect(await raw(request("/api2/json/pools"))).toMatchObject({
      status: 500,
      reason: "malformed JSON string in request body",
    });
    const answer = await raw(request("/api/v1/tenants"));
    expect([answer.status, answer.body]).toEqual([400, expect.stringContaining("not valid UTF-8")]);
    const inPath = await api("GET", "/access/users/%ff%fe@pve");
    expect([inPath.status, inPath.reason]).toEqual([500, "no such user ('\ufffd\ufffd@pve')"]);
  });

  test("path tricks lead nowhere", async () => {
    for (const path of [
      "/api2/json/../../etc/passwd",
      "/api2/json/%2e%2e/%2e%2e/etc/passwd",
      "/api2/json/access/..%2f..%2fversion",
      "/api2/json/%00",
    ]) {
      const answer = await raw(`GET ${path} HTTP/1.1\r\n${auth}\r\n`);
      expect([path, answer.status]).toEqual([path, 501]);
      expect(answer.reason).toContain("not implemented");
    }
    const slashes = await raw(`GET /api2/json//access%2Fusers// HTTP/1.1\r\n${auth}\r\n`);
    expect(slashes.status).toBe(200);
    expect((await raw(`GET /etc/passwd HTTP/1.1\r\n${auth}\r\n`)).status).toBe(404);
    expect((await raw(`GET /api/v1/users/..%2f..%2fx HTTP/1.1\r\n${auth}\r\n`)).status).toBe(404);
  });

  test("chunked bodies, upgrades, plain HTTP and what is no HTTP", async () => {
    const chunked = `POST /api2/json/pools HTTP/1.1\r\n${auth}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`;
    expect(await raw(chunked)).toMatchObject({
      status: 501,
      reason: "chunked transfer encoding not supported",
    });
    expect((await raw("GARBAGE\r\n\r\n")).status).toBe(501);
    expect((await raw("GET / HTTP/7.7\r\n\r\n")).status).toBe(506);
    const upgrade = `GET /api2/json/x HTTP/1.1\r\n${auth}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;
    expect((await raw(upgrade)).status).toBe(501);
  });

  test("forged tickets, replayed CSRF tokens and tokens of deleted users, after three seconds", async () => {
    const login = await loginHeaders(gpve.credentials);
    const cookie = login["Cookie"] ?? "";
    await api("POST", "/access/users", { userid: "gone@pve", password: "password-of-gone" });
    const made = (await api("POST", "/access/users/gone@pve/token/ci", { privsep: 0 })).data as {
      value: string;
    };
    const theirs = await apiOf(gpve.credentials, {})("POST", "/access/ticket", {
      username: "gone@pve",
      password: "password-of-gone",
    });
    const { CSRFPreventionToken } = theirs.data as { CSRFPreventionToken: string };
    await api("DELETE", "/access/users/gone@pve");
    const started = performance.now();
    const answers = await Promise.all([
      apiOf(gpve.credentials, { Cookie: cookie.replace("root", "r00t") })("GET", "/pools"),
      apiOf(gpve.credentials, { Cookie: "PVEAuthCookie=PVE:root@pam:5F000000::c2lnbmF0dXJl" })(
        "GET",
        "/pools",
      ),
      apiOf(gpve.credentials, { Authorization: `PVEAPIToken=gone@pve!ci=${made.value}` })("GET", "/pools"),
      apiOf(gpve.credentials, { Cookie: cookie, CSRFPreventionToken })("POST", "/pools", {
        poolid: "stolen",
      }),
      apiOf(gpve.credentials, { Cookie: cookie })("POST", "/pools", { poolid: "stolen" }),
      apiOf(gpve.credentials, {})("GET", "/pools"),
    ]);
    expect(performance.now() - started).toBeGreaterThan(2_900);
    expect(answers.map(({ status, reason, text }) => [status, reason, text])).toEqual([
      [401, "Authentication failed!", ""],
      [401, "Authentication failed!", ""],
      [401, "Authentication failed!", ""],
      [401, "Permission denied - invalid csrf token", ""],
      [401, "Permission denied - invalid csrf token", ""],
      [401, "No ticket", ""],
    ]);
    expect((await api("GET", "/pools/stolen")).status).not.toBe(200);
  });
});

describe("starting", () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-bad-"));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const run = async (...args: string[]): Promise<{ code: number | string; output: string }> => {
    const child = startChild(nodeBinary, ["--disable-warning=ExperimentalWarning", mainFile, ...args]);
    const code = await child.exited;
    return { code, output: child.output() };
  };

  test("a data directory of a newer version is refused and left alone", async () => {
    const text = '{"version":99,"instanceId":"abcdef"}\n';
    writeFileSync(join(dir, "instance.json"), text);
    const { code, output } = await run("up", "--no-network", "--data", dir, "--listen", "127.0.0.1:0");
    expect(code).not.toBe(0);
    expect(output).toContain("was written by a newer gpve (data version 99, this one knows 1)");
    expect(readFileSync(join(dir, "instance.json"), "utf8")).toBe(text);
  });

  test("a typo in a configuration file is named with file, key and line", async () => {
    const file = join(dir, "server.yaml");
    writeFileSync(file, "apiVersion: gpve.io/v1\nkind: ServerConfiguration\nserver:\n  prot: 8006\n");
    const { code, output } = await run("server", "--config", file, "--data", join(dir, "data"));
    expect(code).toBe(2);
    expect(output).toContain(`${file}:4`);
    expect(output).toContain("prot");
  });
});

if (!isRoot) console.warn("SKIPPED bad-input, full disk: mounting a small tmpfs needs root; run as root");
describe.skipIf(!isRoot)("a full disk", () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-full-"));
  let gpve: Gpve | undefined;
  beforeAll(async () => {
    await exec("mount", ["-t", "tmpfs", "-o", "size=24m", "tmpfs", dir]);
    gpve = await startGpve({ data: dir });
  });
  afterAll(async () => {
    await gpve?.process.stop();
    await exec("umount", ["-l", dir]);
    rmSync(dir, { recursive: true, force: true });
  });

  test("refuses writes in plain words, goes on reading, and recovers when there is room", async () => {
    const api = apiOf((gpve as Gpve).credentials);
    const v1 = apiOf((gpve as Gpve).credentials, undefined, "/api/v1");
    expect((await api("POST", "/pools", { poolid: "before" })).status).toBe(200);
    const ballast = join(dir, "ballast");
    await exec("dd", ["if=/dev/zero", `of=${ballast}`, "bs=64k"], { okCodes: [0, 1] });
    const comment = "x".repeat(4000);
    let refused = await api("PUT", "/pools/before", { comment });
    for (let at = 0; at < 50 && refused.status === 200; at++) {
      refused = await api("PUT", "/pools/before", { comment: `${at}${comment}` });
    }
    expect([refused.status, refused.reason]).toEqual([500, expect.stringMatching(/full|no space/i)]);
    const body = '{"apiVersion":"gpve.io/v1","kind":"Tenant","metadata":{"name":"late"},"spec":{}}';
    expect((await v1("POST", "/tenants", {}, JSON_TYPE, body)).status).toBe(507);
    expect((await api("GET", "/pools/before")).status).toBe(200);
    expect((await api("GET", "/cluster/resources")).status).toBe(200);
    rmSync(ballast);
    expect((await api("POST", "/pools", { poolid: "after" })).status).toBe(200);
  });
});

if (etcdMissing !== undefined) console.warn(`SKIPPED bad-input, store down: ${etcdMissing}`);
describe.skipIf(etcdMissing !== undefined)("a store that is down", () => {
  let etcd: EtcdCluster | undefined;
  let parts: Parts | undefined;
  beforeAll(async () => {
    etcd = await startEtcd({ members: 1 });
    parts = await startParts({ endpoints: etcd.endpoints });
  });
  afterAll(async () => {
    await parts?.stop();
    await etcd?.stop();
  });

  test("reads go on from memory, writes say why they cannot, and all recovers by itself", async () => {
    const { credentials } = parts as Parts;
    const api = apiOf(credentials);
    expect((await api("POST", "/pools", { poolid: "kept" })).status).toBe(200);
    await etcd?.members[0]?.kill();
    expect((await api("GET", "/pools/kept")).status).toBe(200);
    const started = performance.now();
    expect((await api("GET", "/access/users")).status).toBe(200);
    expect(performance.now() - started).toBeLessThan(30_000);
    const write = await api("POST", "/pools", { poolid: "lost" });
    expect([write.status, write.reason]).toEqual([503, expect.stringMatching(/store|etcd/i)]);
    etcd?.members[0]?.start();
    const end = performance.now() + 60_000;
    let again = await api("POST", "/pools", { poolid: "again" });
    while (again.status === 503 && performance.now() < end) {
      await new Promise((done) => setTimeout(done, 500));
      again = await api("POST", "/pools", { poolid: "again" });
    }
    expect(again.status).toBe(200);
    expect((await api("GET", "/pools/again")).status).toBe(200);
  });
});
