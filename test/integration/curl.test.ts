// What a newcomer does with nothing but curl, against the real launcher.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { freePorts } from "../support/parts.ts";
import { readCredentials, root, type Credentials } from "../support/gpve.ts";

const data = mkdtempSync(join(tmpdir(), "gpve-curl-"));
const launcher = join(root, "gpve");
const env = { PATH: process.env["PATH"] ?? "", HOME: data };
/** On a busy machine the launcher takes longer than a program may by itself. */
const HERE = { env, cwd: root, timeoutMs: 300_000 };
let credentials: Credentials;
let port: number;

beforeAll(async () => {
  [port = 0] = await freePorts(1);
});
afterAll(async () => {
  await exec(launcher, ["down", "--data", data], HERE);
  rmSync(data, { recursive: true, force: true });
});

async function curl(...args: string[]): Promise<{ data: unknown; text: string }> {
  const { stdout } = await exec("curl", ["-sS", "--cacert", credentials.caFile, ...args], { env });
  return { data: (JSON.parse(stdout) as { data: unknown }).data, text: stdout };
}

test("a start that cannot listen keeps the secrets it made for the next one", async () => {
  const blocker = createServer();
  await new Promise<void>((done) => blocker.listen(port, "127.0.0.1", done));
  expect((blocker.address() as AddressInfo).port).toBe(port);
  const failed = exec(
    launcher,
    ["up", "--no-network", "--detach", "--data", data, "--listen", `127.0.0.1:${port}`],
    HERE,
  );
  await expect(failed).rejects.toThrow(/something else listens there/);
  await new Promise((done) => blocker.close(done));
});

test("up prints one screen, writes the credentials, and a second up answers at once", async () => {
  const up = ["up", "--no-network", "--detach", "--data", data, "--listen", `127.0.0.1:${port}`];
  const first = await exec(launcher, up, HERE);
  credentials = readCredentials(data);
  expect(statSync(join(data, "credentials.json")).mode & 0o777).toBe(0o600);
  for (const part of [credentials.url, credentials.fingerprint, "credentials.json", "Try next:"]) {
    expect(first.stdout).toContain(part);
  }
  // Only a person at a terminal is shown it: what is not a terminal may be a log.
  expect(first.stdout).not.toContain(credentials.password);
  expect(credentials.token).toMatch(/^root@pam!up=[0-9a-f-]{36}$/);
  const again = await exec(launcher, up, HERE);
  expect(again.stdout).toBe(first.stdout);
  const { stdout } = await exec(launcher, ["status", "--data", data, "--output", "json"], HERE);
  expect(JSON.parse(stdout)).toMatchObject({ running: true, answering: "yes" });
  const pid = (JSON.parse(stdout) as { pid: number }).pid;
  expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).toContain(data);
});

test("login, token, pools, users, ACLs and tasks with curl alone", async () => {
  const api = `${credentials.url}/api2/json`;
  const login = await curl(
    "-d",
    `username=${credentials.username}`,
    "--data-urlencode",
    `password=${credentials.password}`,
    `${api}/access/ticket`,
  );
  const { ticket, CSRFPreventionToken } = login.data as { ticket: string; CSRFPreventionToken: string };
  const session = [
    "-b",
    `PVEAuthCookie=${encodeURIComponent(ticket)}`,
    "-H",
    `CSRFPreventionToken: ${CSRFPreventionToken}`,
  ];
  expect((await curl(...session, `${api}/version`)).data).toMatchObject({ release: "9.2" });
  const made = await curl(...session, "-X", "POST", `${api}/access/users/root@pam/token/curl`);
  const token = ["-H", `Authorization: PVEAPIToken=${credentials.token}`];
  expect(made.data).toMatchObject({ "full-tokenid": "root@pam!curl" });
  await curl(...token, "-d", "poolid=web", "-d", "comment=by curl", `${api}/pools`);
  await curl(...token, "-d", "userid=eve@pve", "-d", "password=correct horse", `${api}/access/users`);
  await curl(
    ...token,
    "-X",
    "PUT",
    "-d",
    "path=/pool/web",
    "-d",
    "users=eve@pve",
    "-d",
    "roles=PVEPoolUser",
    `${api}/access/acl`,
  );
  expect((await curl(...token, `${api}/pools`)).data).toEqual([{ poolid: "web", comment: "by curl" }]);
  expect((await curl(...token, `${api}/access/acl`)).data).toMatchObject([
    { path: "/pool/web", ugid: "eve@pve", roleid: "PVEPoolUser" },
  ]);
  expect((await curl(...token, `${api}/cluster/tasks`)).data).toEqual([]);
  await curl(...token, "-X", "DELETE", `${api}/pools?poolid=web`);
  // A token of root@pam is not root@pam itself.
  const refused = await exec(
    "curl",
    [
      "-sS",
      "-o",
      "/dev/null",
      "-w",
      "%{http_code}",
      "--cacert",
      credentials.caFile,
      ...token,
      "-X",
      "PUT",
      "-d",
      "userid=eve@pve",
      "-d",
      "password=another one",
      `${api}/access/password`,
    ],
    { env },
  );
  expect(refused.stdout).toBe("403");
});

test("gpvectl works on the same machine without a login", async () => {
  const { stdout } = await exec(launcher, ["ctl", "--data", data, "node", "list", "--output", "json"], HERE);
  expect(JSON.parse(stdout)).toMatchObject([{ status: "online" }]);
  expect(existsSync(join(data, ".config"))).toBe(false);
});
