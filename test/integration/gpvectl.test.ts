// gpvectl as a person uses it, against a real `gpve up`.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { allCommands } from "@gpve/cli/commands.ts";
import { environmentOf, type Ran, runCtl } from "../support/ctl.ts";
import { type Gpve, mainFile, nodeBinary, startGpve } from "../support/gpve.ts";

let gpve: Gpve;
let home: string;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "gpvectl-it-"));
  gpve = await startGpve();
});
afterAll(async () => {
  await gpve.stop();
  rmSync(home, { recursive: true, force: true });
});

const environment = (): Record<string, string> => environmentOf(home);
const ctl = (argv: readonly string[], input = ""): Promise<Ran> => runCtl(home, argv, input);

/** The program itself, in a process of its own. */
function spawned(argv: readonly string[]): Ran {
  const ran = spawnSync(nodeBinary, [mainFile, "ctl", ...argv], {
    cwd: home,
    env: environment(),
    encoding: "utf8",
    timeout: 150_000,
  });
  return { code: ran.status, out: ran.stdout, err: ran.stderr };
}

/** On the running server's own machine: no login. */
const local = (argv: readonly string[], input?: string): Promise<Ran> =>
  ctl([...argv, "--data", gpve.data], input);
const json = async (argv: readonly string[]): Promise<unknown> => {
  const ran = await local([...argv, "-o", "json"]);
  expect(ran).toMatchObject({ code: 0, err: "" });
  return JSON.parse(ran.out);
};

const objects = [
  "apiVersion: gpve.io/v1",
  "kind: Binding",
  "spec: {path: /pool/it, role: PVEVMUser, subjects: [{kind: User, name: ann@pve}]}",
  "---",
  "apiVersion: gpve.io/v1",
  "kind: User",
  "metadata: {name: ann@pve, labels: {team: it}}",
  "spec: {comment: Ann}",
  "---",
  "apiVersion: gpve.io/v1",
  "kind: Tenant",
  "metadata: {name: it, labels: {team: it}}",
  "spec: {comment: hello wörld}",
  "",
].join("\n");

describe("on the same machine", () => {
  test("status, version and nodes need no login", async () => {
    expect(spawned(["status", "--data", gpve.data]).out).toMatch(/Nodes: +1 of 1 online\n/);
    expect((await local(["status"])).out).toMatch(/Nodes: +1 of 1 online\n/);
    expect(await json(["version"])).toMatchObject({ server: gpve.credentials.url });
    const [node] = (await json(["node", "list"])) as { node: string; status: string }[];
    expect(node?.status).toBe("online");
    expect((await local(["node", "show", node?.node ?? ""])).out).toMatch(/\nKernel: +Linux /);
    expect((await local(["describe", "node", node?.node ?? ""])).out).toMatch(/\nCapabilities:\n/);
  });

  test("users, groups, roles, permissions, tokens and pools are made, shown and removed", async () => {
    const steps: readonly (readonly [argv: readonly string[], input?: string])[] = [
      [["group", "create", "ops"]],
      [["user", "create", "joe@pve", "--groups", "ops", "--password-stdin"], "correct horse\n"],
      [["role", "create", "Watcher", "VM.Audit"]],
      [["role", "set", "Watcher", "Sys.Audit", "--append"]],
      [["pool", "create", "dev", "--comment", "größer ✓"]],
      [["acl", "grant", "/pool/dev", "Watcher", "--group", "ops"]],
      [["user", "password", "joe@pve", "--password-stdin"], "another horse\n"],
    ];
    for (const [argv, input] of steps) expect(await local(argv, input)).toMatchObject({ code: 0, err: "" });
    expect((await local(["role", "show", "Watcher"])).out).toBe("Sys.Audit\nVM.Audit\n");
    expect((await local(["pool", "list"])).out).toBe("POOL  COMMENT\ndev   größer ✓\n");
    expect((await local(["user", "permissions", "joe@pve", "--path", "/pool/dev"])).out).toContain(
      "Sys.Audit,VM.Audit",
    );
    const token = await local(["token", "create", "joe@pve!ci"]);
    expect(token.out).toMatch(/^joe@pve!ci=[0-9a-f-]{36}\n$/);
    const clean: readonly (readonly string[])[] = [
      ["token", "delete", "joe@pve!ci"],
      ["acl", "revoke", "/pool/dev", "Watcher", "--group", "ops"],
      ["pool", "delete", "dev"],
      ["role", "delete", "Watcher"],
      ["user", "delete", "joe@pve"],
      ["group", "delete", "ops"],
    ];
    for (const argv of clean) expect(await local(argv)).toMatchObject({ code: 0, err: "" });
  });

  test("objects are planned, applied, compared, watched and deleted", async () => {
    writeFileSync(join(home, "objects.yaml"), objects);
    expect(await local(["pool", "create", "there-before"])).toMatchObject({ code: 0 });
    const watcher = spawn(
      nodeBinary,
      [mainFile, "ctl", "get", "tenants", "-w", "-o", "json", "--data", gpve.data],
      {
        env: environment(),
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    onTestFinished(() => {
      watcher.kill("SIGKILL");
    });
    let seen = "";
    watcher.stdout.on("data", (chunk: Buffer) => (seen += chunk.toString()));
    // What exists comes first: then it is watching.
    await expect.poll(() => seen, { timeout: 150_000 }).toContain("there-before");
    expect(await local(["diff", "-f", "objects.yaml"])).toMatchObject({
      code: 1,
      err: "3 to create, 0 to update, 0 unchanged\n",
    });
    const applied = await local(["apply", "-f", "objects.yaml"]);
    expect(applied.code).toBe(0);
    expect(applied.err).toMatch(/TASK OK\n3 created, 0 updated, 0 unchanged\n$/);
    expect((await local(["diff", "-f", "objects.yaml"])).code).toBe(0);
    expect((await local(["get", "users", "-l", "team=it"])).out).toMatch(/\nann@pve /);
    const bad = await local(["apply", "-f", "-"], objects.replace("comment: Ann", "coment: Ann"));
    expect(bad).toMatchObject({ code: 2, err: expect.stringContaining("did you mean 'comment'?") });
    expect((await local(["delete", "-f", "objects.yaml"])).out).toBe(
      "Deleted Binding PVEVMUser@/pool/it.\nDeleted User ann@pve.\nDeleted Tenant it.\n",
    );
    await expect.poll(() => seen, { timeout: 150_000 }).toContain('{"type":"DELETED"');
    expect(seen).toContain('"name":"it"');
    watcher.kill("SIGINT");
    const [code] = (await once(watcher, "exit")) as [number];
    expect(code).toBe(130);
  });

  test("tasks are listed, shown and followed to their outcome", async () => {
    writeFileSync(
      join(home, "one.yaml"),
      "apiVersion: gpve.io/v1\nkind: Tenant\nmetadata: {name: t1}\nspec: {}\n",
    );
    const { task } = JSON.parse(
      (await local(["apply", "-f", "one.yaml", "--no-wait", "-o", "json"])).out,
    ) as {
      task: string;
    };
    expect(await local(["task", "follow", task])).toEqual({
      code: 0,
      err: "",
      out: "Tenant t1: created\nTASK OK\n",
    });
    expect(await json(["task", "show", task])).toMatchObject({ status: "stopped", exitstatus: "OK" });
    expect(JSON.stringify(await json(["task", "list"]))).toContain(task);
    expect((await local(["task", "list", "--running"])).err).toBe("No tasks.\n");
  });

  test("both faces answer raw calls, and coverage adds up", async () => {
    expect(JSON.parse((await local(["api", "get", "/version"])).out)).toHaveProperty("release", "9.2");
    expect(JSON.parse((await local(["api", "get", "/api/v1"])).out)).toHaveProperty("kinds");
    // root@pam!up is not root@pam; gpvectl falls back to the password for what tokens may not do.
    expect(
      await local(
        ["api", "put", "/access/password", "userid=root@pam", "password=@-"],
        gpve.credentials.password,
      ),
    ).toMatchObject({
      code: 0,
    });
    const coverage = (await json(["api", "coverage"])) as {
      implemented: number;
      known: number;
      areas: { known: number }[];
    };
    expect(coverage.known).toBe(coverage.areas.reduce((sum, area) => sum + area.known, 0));
    expect(coverage.implemented).toBeGreaterThan(50);
  });

  test("the audit log names what was done and is whole", async () => {
    expect((await local(["pool", "create", "audited"])).code).toBe(0);
    const entries = (await json(["audit", "list", "--verb", "create", "-n", "5"])) as {
      name: string;
      user: string;
    }[];
    expect(entries[0]).toMatchObject({ name: "audited", user: "root@pam!up" });
    expect((await local(["audit", "verify"])).out).toMatch(/^The audit log is whole: \d+ entries/);
  });

  test("failures end with the exit code of their kind and one line", async () => {
    const cases: readonly (readonly [argv: readonly string[], code: number])[] = [
      [["pool", "delete", "nope"], 5],
      [["pool", "create", "audited"], 6],
      [["api", "get", "/nope"], 10],
      [["get", "nopes"], 5],
      [["task", "show", "nonsense"], 2],
      [["get", "tenants", "nope"], 5],
      [["store", "verify"], 8],
    ];
    for (const [argv, code] of cases) {
      const ran = await local(argv);
      expect(ran, argv.join(" ")).toMatchObject({ code, out: "" });
      expect(ran.err).toMatch(/^gpvectl: cannot .*: .*\.? .*\n$/);
    }
  });
});

describe("from elsewhere", () => {
  test("login pins the certificate, keeps a ticket privately, and logout forgets it", async () => {
    const { url, password, fingerprint, username } = gpve.credentials;
    expect(await ctl(["login", url, "--password-stdin"], `${password}\n`)).toMatchObject({
      code: 11,
      err: expect.stringContaining(`--fingerprint ${fingerprint}`),
    });
    const login = await ctl(
      ["login", url, "--password-stdin", "--fingerprint", fingerprint],
      `${password}\n`,
    );
    expect(login).toMatchObject({ code: 0, out: expect.stringContaining(`as ${username}`) });
    const file = join(home, ".config/gpve/config.yaml");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(readFileSync(file, "utf8")).not.toContain(password);
    expect(await ctl(["pool", "create", "by-ticket"])).toMatchObject({ code: 0 });
    expect((await ctl(["logout"])).code).toBe(0);
    expect((await ctl(["pool", "list"])).code).toBe(3);
  });

  test("on a terminal it asks, and does not show the password", async ({ skip }) => {
    if (spawnSync("script", ["--version"]).status !== 0) {
      skip("script is missing, which gives a terminal; get it with: apt-get install bsdutils");
    }
    const { url, password } = gpve.credentials;
    const command = `"${nodeBinary}" "${mainFile}" ctl login ${url} --name terminal`;
    const terminal = spawn("script", ["-qfec", command, "/dev/null"], {
      env: { ...environment(), TERM: "xterm" },
    });
    let shown = "";
    terminal.stdout.on("data", (chunk: Buffer) => (shown += chunk.toString()));
    await expect.poll(() => shown, { timeout: 150_000 }).toContain("(yes/no)");
    terminal.stdin.write("no\u007f\u007fyes\r");
    await expect.poll(() => shown, { timeout: 150_000 }).toContain("Password for root@pam");
    terminal.stdin.write(`${password}\r`);
    const [code] = (await once(terminal, "exit")) as [number];
    expect(code).toBe(0);
    expect(shown).toContain("Logged in to");
    expect(shown).not.toContain(password);
  });

  test("a context with a token and the CA file works by name", async () => {
    const { url, token, caFile } = gpve.credentials;
    const name = url.replace("127.0.0.1", "localhost");
    expect(
      (await ctl(["context", "add", "tok", name, "--ca-file", caFile, "--token-stdin"], token)).code,
    ).toBe(0);
    expect((await ctl(["node", "list", "--context", "tok"])).code).toBe(0);
    expect((await ctl(["context", "use", "tok"])).code).toBe(0);
    expect((await ctl(["context", "remove", "tok"])).code).toBe(0);
  });
});

describe("help and completion", () => {
  test("bash completes commands", async () => {
    const script = spawned(["completion", "bash"]).out;
    const probe = [
      `gpvectl() { "${nodeBinary}" "${mainFile}" ctl "$@"; }`,
      script,
      'COMP_WORDS=(gpvectl task fo); COMP_CWORD=2; _gpvectl; echo "${COMPREPLY[@]}"',
    ].join("\n");
    const ran = spawnSync("bash", ["-c", probe], { env: environment(), encoding: "utf8" });
    expect(ran.stdout).toBe("follow\n");
  });

  test("help names every noun", async () => {
    const help = spawned(["--help"]).out;
    for (const spec of allCommands) expect(help).toContain(`  ${spec.name.split(" ")[0]}`);
  });
});
