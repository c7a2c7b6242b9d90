import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseConfig } from "../../session/config-file.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";
import { contextName } from "./login.ts";

const FINGERPRINT = "AB".repeat(32);
const noEnv = { env: { GPVE_URL: "", GPVE_TOKEN: "" } };

async function withLogin(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.certificate = FINGERPRINT;
  ctl.api
    .pve("GET /access/domains", [])
    .pve("POST /access/ticket", { username: "root@pam", ticket: "PVE:t", CSRFPreventionToken: "c" })
    .pve("GET /version", { version: "9.2.11" });
  return ctl;
}

test("login asks about an unknown certificate, then for the password, and keeps a ticket in a private file", async () => {
  await using ctl = await withLogin();
  const ran = await ctl.run(["login", "https://lab:8006"], { ...noEnv, answers: ["yes", "hunter22"] });
  expect(ran).toEqual({
    code: 0,
    out: "Logged in to https://fake:8006 as root@pam; context lab.\n",
    err: `The certificate of https://lab:8006 is not known here. Its SHA-256 fingerprint is\n  ${FINGERPRINT}\n`,
  });
  expect(ctl.asked).toEqual([
    "Compare it with what `gpve up` printed. Trust it? (yes/no) ",
    "Password for root@pam on https://lab:8006: ",
  ]);
  const path = join(ctl.home, ".config/gpve/config.yaml");
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const text = await readFile(path, "utf8");
  expect(text).not.toContain("hunter22");
  expect(parseConfig(text, path)).toMatchObject({
    current: "lab",
    contexts: { lab: { server: "https://lab:8006", fingerprint: FINGERPRINT, username: "root@pam" } },
  });
  const version = await ctl.run(["version"], noEnv);
  expect(version.out).toContain("Speaks PVE:  9.2.11");
  expect(ctl.api.last("GET /api2/json/version").headers["cookie"]).toBe("PVEAuthCookie=PVE%3At");
  expect(ctl.connections.at(-1)).toEqual({ url: "https://lab:8006", fingerprint: FINGERPRINT });
});

test("login sends no password to a server that is not trusted", async () => {
  await using ctl = await withLogin();
  const no = await ctl.run(["login", "https://lab:8006"], { ...noEnv, answers: ["no"] });
  expect(no).toMatchObject({
    code: 11,
    err: expect.stringContaining("gpvectl login URL --fingerprint SHA256"),
  });
  const scripted = await ctl.run(["login", "https://lab:8006", "--password-stdin"], { ...noEnv, stdin: "x" });
  expect(scripted).toMatchObject({
    code: 11,
    err: expect.stringContaining(`add: --fingerprint ${FINGERPRINT}`),
  });
  const pinned = await ctl.run(["login", "https://lab:8006", "--fingerprint", "CD".repeat(32)], {
    ...noEnv,
    answers: ["hunter22"],
  });
  expect(pinned.code).toBe(11);
  expect(ctl.api.requests).toEqual([]);
});

test("login again needs no URL and keeps the trust; logout forgets the ticket", async () => {
  await using ctl = await withLogin();
  const first = [
    "login",
    "https://lab:8006",
    "--fingerprint",
    FINGERPRINT,
    "-u",
    "joe@pve",
    "--password-stdin",
  ];
  expect((await ctl.run(first, { ...noEnv, stdin: "hunter22\n" })).code).toBe(0);
  expect(ctl.api.last("POST /api2/json/access/ticket").form.get("username")).toBe("joe@pve");
  expect((await ctl.run(["logout"], noEnv)).out).toBe("Logged out of lab.\n");
  expect((await ctl.run(["context", "list"], noEnv)).out).toBe(
    "NAME  CURRENT  SERVER            AS        LOGIN\nlab   yes      https://lab:8006  root@pam  none\n",
  );
  expect((await ctl.run(["login"], { ...noEnv, answers: ["hunter22"] })).code).toBe(0);
  expect((await ctl.run(["context", "list", "-o", "json"], noEnv)).out).not.toContain("PVE:t");
});

test("a wrong password says what to check", async () => {
  await using ctl = await withLogin();
  ctl.api.pveError("POST /access/ticket", 401, "authentication failure");
  const argv = ["login", "https://lab:8006", "--fingerprint", FINGERPRINT, "--password-stdin"];
  expect(await ctl.run(argv, { ...noEnv, stdin: "wrong" })).toMatchObject({
    code: 3,
    err: "gpvectl: cannot log in to https://lab:8006: root@pam: authentication failure. Check the name (-u NAME@REALM) and the password.\n",
  });
});

test("two servers on one host are two contexts", async () => {
  await using ctl = await withLogin();
  const login = async (url: string): Promise<string> =>
    (
      await ctl.run(["login", url, "--fingerprint", FINGERPRINT, "--password-stdin"], {
        ...noEnv,
        stdin: "x",
      })
    ).out;
  expect(await login("https://lab:8006")).toContain("context lab.");
  expect(await login("https://lab:9006")).toContain("context lab-9006.");
  expect(await login("https://lab")).toContain("context lab-443.");
  expect(await login("https://lab:8006")).toContain("context lab.");
});

test("login and logout without a server say what to do", async () => {
  await using ctl = await Gpvectl.create();
  expect((await ctl.run(["login"], noEnv)).err).toContain("no server is named; give its URL");
  expect((await ctl.run(["logout"], noEnv)).err).toContain("no context to log out of");
  expect(await ctl.run(["node", "list"], noEnv)).toEqual({
    code: 2,
    out: "",
    err: "gpvectl: cannot list nodes: no server is chosen. Log in with gpvectl login https://HOST:8006, name a data directory with --data DIR, or start a gpve on this machine: ./gpve up --detach.\n",
  });
});

test("contexts are added with a token, chosen and removed", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.pve("GET /nodes", []);
  const add = ["context", "add", "a", "https://a:8006", "--fingerprint", FINGERPRINT, "--token-stdin"];
  expect((await ctl.run(add, { ...noEnv, stdin: "joe@pve!ci=s3cret\n" })).out).toBe("Added context a.\n");
  expect((await ctl.run(add, { ...noEnv, stdin: "joe@pve!ci=s3cret\n" })).code).toBe(6);
  expect((await ctl.run(add, { ...noEnv, stdin: "nonsense" })).code).toBe(2);
  expect((await ctl.run(["context", "add", "b", "https://b:8006"], noEnv)).code).toBe(0);
  await ctl.run(["node", "list"], noEnv);
  expect(ctl.api.requests.at(-1)?.headers["authorization"]).toBe("PVEAPIToken=joe@pve!ci=s3cret");
  expect((await ctl.run(["context", "use", "b"], noEnv)).out).toBe("Commands now go to b.\n");
  expect((await ctl.run(["context", "list"], noEnv)).out).toBe(
    [
      "NAME  CURRENT  SERVER          AS          LOGIN",
      "a     no       https://a:8006  joe@pve!ci  token",
      "b     yes      https://b:8006  -           none",
      "",
    ].join("\n"),
  );
  await ctl.run(["node", "list", "--context", "a"], noEnv);
  expect(ctl.connections.at(-1)?.url).toBe("https://a:8006");
  expect((await ctl.run(["context", "remove", "b"], noEnv)).code).toBe(0);
  for (const argv of [
    ["context", "remove", "b"],
    ["context", "use", "b"],
    ["node", "list", "--context", "b"],
  ]) {
    expect(await ctl.run(argv, noEnv)).toMatchObject({
      code: 5,
      err: expect.stringContaining('no context "b"'),
    });
  }
});

test("--data reads credentials.json, and the CA file it names", async () => {
  await using ctl = await Gpvectl.create();
  ctl.api.pve("GET /nodes", []);
  const dir = join(ctl.home, "data");
  const missing = await ctl.run(["node", "list", "--data", "data"]);
  expect(missing).toMatchObject({
    code: 5,
    err: expect.stringContaining(`./gpve up --detach --data ${dir}`),
  });
  await mkdir(dir);
  const credentials = { url: "https://127.0.0.1:8006", fingerprint: FINGERPRINT, caFile: "ca.pem" };
  const write = (body: unknown): Promise<void> =>
    writeFile(join(dir, "credentials.json"), typeof body === "string" ? body : JSON.stringify(body));
  await write({ ...credentials, username: "root@pam", password: "p", token: "root@pam!up=s" });
  expect((await ctl.run(["node", "list", "--data", "data"])).err).toContain("cannot read the CA file");
  await writeFile(join(dir, "ca.pem"), "PEM");
  expect((await ctl.run(["node", "list", "--data", "data", "--timeout", "5s"])).code).toBe(0);
  expect(ctl.connections.at(-1)).toEqual({
    url: credentials.url,
    fingerprint: FINGERPRINT,
    ca: "PEM",
    timeoutMs: 5000,
  });
  await write({ url: "https://x", token: "t" });
  expect((await ctl.run(["node", "list", "--data", "data"])).code).toBe(0);
  await write({ url: "https://x", username: "root@pam" });
  expect((await ctl.run(["node", "list", "--data", "data"])).code).toBe(0);
  expect((await ctl.run(["node", "list", "--data", "data", "--context", "x"])).code).toBe(2);
  expect((await ctl.run(["node", "list"], { ...noEnv, localDataDir: dir })).code).toBe(0);
  await write("{");
  expect((await ctl.run(["node", "list", "--data", "data"])).err).toContain("is not JSON");
  await write({});
  expect((await ctl.run(["node", "list", "--data", "data"])).err).toContain("names no url");
});

test("a config file with a mistake is named with the mistake", async () => {
  await using ctl = await Gpvectl.create();
  const path = join(ctl.home, "c.yaml");
  const env = { ...noEnv.env, GPVE_CONFIG: path };
  for (const [text, why] of [
    ["a: [", "c.yaml line 1: "],
    ["a: *b", "c.yaml: Unresolved alias"],
    ["contexts: 3", '"contexts" must be a map'],
    ["contexts: {a: {}}", 'context "a" has no server'],
  ] as const) {
    await writeFile(path, text);
    expect(await ctl.run(["context", "list"], { env })).toMatchObject({
      code: 2,
      err: expect.stringContaining(why),
    });
  }
  await writeFile(path, "");
  expect((await ctl.run(["context", "list"], { env })).err).toContain("No contexts.");
  const unreadable = { ...noEnv.env, GPVE_CONFIG: ctl.home };
  expect((await ctl.run(["context", "list"], { env: unreadable })).err).toContain("cannot read");
  expect((await ctl.run(["context", "add", "a", "https://a"], { env: unreadable })).code).toBe(2);
});

test("contexts take the host's name", () => {
  expect(contextName("https://lab.example:8006")).toBe("lab.example");
  expect(contextName("https://[::1]:8006")).toBe("::1");
  expect(contextName("nonsense")).toBe("nonsense");
});
