import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Gpvectl } from "../testing/run-gpvectl.ts";

let cli: Gpvectl;
const node = "/nodes/n1";
const vm = `${node}/qemu/100`;
const qm = (...words: string[]) => cli.runPve("qm", words);

beforeEach(async () => {
  cli = await Gpvectl.create();
  cli.api.pve("GET /cluster/status", [
    { type: "cluster", name: "prod" },
    { type: "node", name: "n2", local: 0 },
    { type: "node", name: "n1", local: 1 },
  ]);
});
afterEach(async () => {
  await cli[Symbol.asyncDispose]();
});

function task(type: string, exitstatus: string, log: readonly string[]): string {
  const upid = `UPID:n1:1:2:3:${type}:100:root@pam:`;
  const at = `GET ${node}/tasks/${upid}`;
  cli.api.pve(`${at}/status`, { status: "stopped", exitstatus });
  cli.api.pve(
    `${at}/log`,
    log.map((t, index) => ({ n: index + 1, t })),
  );
  return upid;
}

describe("qm", () => {
  test("list is PVE's table, and nothing where there is nothing", async () => {
    cli.api.pve(`GET ${node}/qemu`, [
      { vmid: 200, name: "b", status: "running", maxmem: 2 ** 30, maxdisk: 2 ** 30, pid: 7 },
      { vmid: 100, name: "a", status: "stopped", maxmem: 2 ** 20 },
    ]);
    const { code, out } = await qm("list");
    expect(code).toBe(0);
    expect(out.split("\n")).toEqual([
      "      VMID NAME                 STATUS     MEM(MB)    BOOTDISK(GB) PID       ",
      "       100 a                    stopped    1                  0.00 0         ",
      "       200 b                    running    1024               1.00 7         ",
      "",
    ]);
    cli.api.pve(`GET ${node}/qemu`, []);
    expect((await qm("list")).out).toBe("");
  });

  test("config and pending are lines, the description on one of them", async () => {
    cli.api.pve(`GET ${vm}/config`, { name: "a", description: "x\n100%", digest: "d", cores: 2 });
    expect((await qm("config", "100")).out).toBe("cores: 2\ndescription: x%0A100%25\nname: a\n");
    cli.api.pve(`GET ${vm}/pending`, [
      { key: "memory", value: 512, pending: 1024 },
      { key: "cores", value: 2 },
      { key: "net0", value: "virtio", delete: 1 },
      { key: "tags", pending: "t" },
      { key: "digest", value: "d" },
    ]);
    expect((await qm("pending", "100")).out).toBe(
      "cur cores: 2\ncur memory: 512\nnew memory: 1024\ndel net0: virtio\nnew tags: t\n",
    );
  });

  test("a task's log is shown, and the command ends as the task does", async () => {
    cli.api.pve(`POST ${vm}/status/start`, task("qmstart", "OK", ["starting", "TASK OK"]));
    expect(await qm("start", "100", "--timeout", "5")).toEqual({ code: 0, out: "starting\n", err: "" });
    expect(cli.api.last(`POST /api2/json${vm}/status/start`).form.get("timeout")).toBe("5");
    const log = ["trying", "VM 100 already running", "TASK ERROR: VM 100 already running"];
    cli.api.pve(`POST ${vm}/status/start`, task("qmstart", "VM 100 already running", log));
    expect(await qm("start", "100")).toEqual({
      code: 255,
      out: "trying\n",
      err: "VM 100 already running\n",
    });
  });

  test("mistakes are told in PVE's words, with the usage", async () => {
    expect(await qm("start")).toMatchObject({
      code: 255,
      err: "400 not enough arguments\nqm start <vmid> [OPTIONS]\n",
    });
    expect((await qm("start", "abc")).err).toBe(
      "400 Parameter verification failed.\nvmid: type check ('integer') failed - got 'abc'\nqm start <vmid> [OPTIONS]\n",
    );
    expect((await qm("set", "100", "--bogus", "1")).err).toBe(
      "Unknown option: bogus\n400 unable to parse option\nqm set <vmid> [OPTIONS]\n",
    );
    cli.api.pveError(`PUT ${vm}/config`, 400, "Parameter verification failed.", { net0: "no such bridge" });
    expect((await qm("set", "100", "--net0", "virtio,bridge=vmbr9")).err).toBe(
      "400 Parameter verification failed.\nnet0: no such bridge\nqm set <vmid> [OPTIONS]\n",
    );
    const missing = "Configuration file 'nodes/n1/qemu-server/100.conf' does not exist";
    cli.api.pveError(`GET ${vm}/config`, 500, missing);
    expect(await qm("config", "100")).toMatchObject({ code: 2, err: `${missing}\n` });
    cli.api.pveError(`POST ${vm}/migrate`, 501, "Method 'POST migrate' not implemented");
    expect((await qm("migrate", "100", "n2")).err).toBe("501 Method 'POST migrate' not implemented\n");
  });

  test("commands may be shortened; groups and strangers are answered with the usage", async () => {
    cli.api.pve(`POST ${vm}/status/shutdown`, task("qmshutdown", "OK", []));
    expect((await qm("shut", "100")).code).toBe(0);
    const unknown = await qm("fly", "100");
    expect(unknown).toMatchObject({ code: 255, out: "" });
    expect(unknown.err).toMatch(/^ERROR: unknown command 'qm fly'\nUSAGE: qm <COMMAND>/);
    expect((await qm("disk")).err).toMatch(/^ERROR: no command specified\nUSAGE: qm disk <COMMAND>/);
    expect((await qm("mtunnel")).err).toMatch(/^qm mtunnel does not exist on gpve: /);
    expect((await qm("help")).out).toContain("       qm disk import <vmid> <source> <storage> [OPTIONS]\n");
    expect((await cli.runPve("pveum", ["help", "user", "list"])).out).toMatch(
      /^USAGE: pveum user list \[OPTIONS\] \[FORMAT_OPTIONS\]\n/,
    );
    expect((await qm("help", "start")).out).toMatch(/--timeout +<integer>/);
    expect((await qm("help", "mtunnel")).out).toContain("does not exist on gpve");
    expect(await qm("help", "fly")).toMatchObject({ code: 255 });
  });

  test("without a gpve on this machine it says how to start one", async () => {
    const ran = await cli.runPve("qm", ["list"], { localDataDir: "/nowhere" });
    expect(ran).toMatchObject({ code: 255 });
    expect(ran.err).toContain("./gpve up --detach --data /nowhere");
  });
});

describe("pvesh", () => {
  const pvesh = (...words: string[]) => cli.runPve("pvesh", words);

  test("gets, in every format", async () => {
    cli.api.pve("GET /version", { version: "9.2", release: "9.2", repoid: "x" });
    expect((await pvesh("get", "/version", "--output-format", "json")).out).toBe(
      '{"release":"9.2","repoid":"x","version":"9.2"}\n',
    );
    expect((await pvesh("get", "version", "--noborder", "--noheader")).out).toContain("version 9.2\n");
    expect((await pvesh("get", "/version", "--quiet")).out).toBe("");
    expect((await pvesh("--nooutput", "get", "/version")).out).toBe("");
    const utf8 = await cli.runPve("pvesh", ["get", "/version"], { env: { LANG: "C.UTF-8" } });
    expect(utf8.out.split("\n")[0]).toMatch(/^┌─+┬─+┐$/);
  });

  test("localhost is this node; what a program reads has no log in it", async () => {
    const upid = task("qmstop", "OK", ["stopping"]);
    cli.api.pve(`POST ${vm}/status/stop`, upid);
    expect(await pvesh("create", "/nodes/localhost/qemu/100/status/stop", "--output-format", "json")).toEqual(
      {
        code: 0,
        out: `"${upid}"\n`,
        err: "stopping\n",
      },
    );
    expect((await pvesh("create", `${vm}/status/stop`)).out).toBe(`stopping\n${upid}\n`);
  });

  test("ls shows what can be done with what is below", async () => {
    cli.api.pve("GET /nodes", [{ node: "n2" }, { node: "n1" }]);
    expect((await pvesh("ls", "/nodes")).out).toBe("Dr---        n1\nDr---        n2\n");
    expect((await pvesh("ls", "/")).out).toContain("Drwcd        pools\n");
    cli.api.pve("GET /version", {});
    expect((await pvesh("ls", "/version")).err).toBe("resource '/version' does not define child links\n");
    expect(await pvesh("ls", "/nope")).toMatchObject({ code: 255, err: "no such resource '/nope'\n" });
  });

  test("paths and words that are none are refused", async () => {
    expect(await pvesh("get", "/nope")).toMatchObject({
      code: 1,
      err: "No 'get' handler defined for '/nope'\n",
    });
    expect((await pvesh("get")).err).toContain("400 not enough arguments");
    expect((await pvesh("fetch", "/")).err).toContain("ERROR: unknown command 'pvesh fetch'");
    expect((await pvesh()).err).toContain("ERROR: no command specified");
    expect((await pvesh("create", "/pools")).err).toBe(
      "400 Parameter verification failed.\npoolid: property is missing and it is not optional\n" +
        "pvesh create <api_path> --poolid <string> [OPTIONS] [FORMAT_OPTIONS]\n",
    );
    expect((await pvesh("help")).out).toContain("pvesh ls <api_path>");
  });

  test("usage tells what a path takes", async () => {
    expect((await pvesh("usage", "/pools", "--command", "create")).out).toBe(
      "USAGE: pvesh create /pools --poolid <string> [OPTIONS]\n",
    );
    expect((await pvesh("usage", "/version", "-v", "--returns")).out).toContain('"type" : "object"');
    expect((await pvesh("usage", "/nope")).err).toBe("no such resource '/nope'\n");
    expect((await pvesh("usage", "/version", "--command", "set")).err).toBe(
      "no 'set' handler for '/version'\n",
    );
  });
});

describe("the others", () => {
  test("pvesm status and list", async () => {
    cli.api.pve(`GET ${node}/storage`, [
      { storage: "local", type: "dir", active: 1, enabled: 1, total: 4096, used: 1024, avail: 3072 },
      { storage: "cold", type: "dir", enabled: 0 },
    ]);
    expect((await cli.runPve("pvesm", ["status"])).out.split("\n")).toEqual([
      "Name         Type     Status           Total            Used       Available        %",
      "cold          dir   disabled               0               0               0      N/A",
      "local         dir     active               4               1               3   25.00%",
      "",
    ]);
    cli.api.pve(`GET ${node}/storage/local/content`, [
      { volid: "local:iso/x.iso", format: "iso", content: "iso", size: 5 },
      { volid: "local:100/vm-100-disk-0.raw", format: "raw", content: "images", size: 1024, vmid: 100 },
    ]);
    expect((await cli.runPve("pvesm", ["list", "local"])).out.split("\n").slice(1, 3)).toEqual([
      "local:100/vm-100-disk-0.raw raw     images    1024 100",
      "local:iso/x.iso             iso     iso          5",
    ]);
  });

  test("pvesm free finds the storage in the volume's name", async () => {
    cli.api.pve(`DELETE ${node}/storage/local/content/local:iso/x.iso`, null);
    expect((await cli.runPve("pvesm", ["free", "local:iso/x.iso"])).code).toBe(0);
    expect(await cli.runPve("pvesm", ["free", "x.iso"])).toMatchObject({
      code: 255,
      err: "unable to parse volume ID 'x.iso'\n",
    });
  });

  test("pvesm alloc, path, scan and prune-backups", async () => {
    const pvesm = (...words: string[]) => cli.runPve("pvesm", words);
    cli.api.pve(`POST ${node}/storage/local/content`, "local:100/vm-100-disk-1.raw");
    expect((await pvesm("alloc", "local", "100", "vm-100-disk-1.raw", "1G")).out).toBe(
      "successfully created 'local:100/vm-100-disk-1.raw'\n",
    );
    cli.api.pve(`GET ${node}/storage/local/content/local:iso/x.iso`, { path: "/srv/x.iso" });
    expect((await pvesm("path", "local:iso/x.iso")).out).toBe("/srv/x.iso\n");
    cli.api.pve(`GET ${node}/scan/nfs`, [
      { path: "/a", options: "*" },
      { path: "/long", options: "x" },
    ]);
    expect((await pvesm("nfsscan", "server")).out).toBe("/a    *\n/long x\n");
    cli.api.pve(`GET ${node}/storage/local/prunebackups`, [
      { volid: "local:backup/b", type: "qemu", vmid: 100, ctime: 2, mark: "remove" },
      { volid: "local:backup/a", type: "unknown", ctime: 1, mark: "protected" },
    ]);
    const preview = await pvesm("prune-backups", "local", "--dry-run", "--keep-last", "1", "--vmid", "100");
    expect(preview.out).toContain("local:backup/b         qemu/100     remove\n");
    const asked = cli.api.last(`GET /api2/json${node}/storage/local/prunebackups`).query;
    expect(Object.fromEntries(asked)).toEqual({ "prune-backups": "keep-last=1", vmid: "100" });
    cli.api.pve(`GET ${node}/storage/local/prunebackups`, []);
    expect((await pvesm("prune-backups", "local", "--dry-run")).out).toBe("No backups found\n");
    cli.api.pve(`DELETE ${node}/storage/local/prunebackups`, null);
    expect(await pvesm("prune-backups", "local")).toEqual({ code: 0, out: "", err: "" });
    cli.api.pve(`GET ${node}/vzdump/extractconfig`, "cores: 1");
    expect((await pvesm("extractconfig", "local:backup/a")).out).toBe("cores: 1\n");
  });

  test("pveum: aliases, fixed values, permissions, passwords", async () => {
    const pveum = (...words: string[]) => cli.runPve("pveum", words);
    cli.api.pve("PUT /access/acl", null);
    await pveum("acldel", "/vms", "--users", "joe@pve", "--roles", "PVEAdmin");
    expect(cli.api.last("PUT /api2/json/access/acl").form.get("delete")).toBe("1");
    cli.api.pve("GET /access/permissions", { "/": { "VM.Audit": 1, "VM.Config": 0 } });
    const { out } = await pveum("user", "token", "permissions", "joe@pve", "tok", "--path", "/");
    expect(out).toContain("| /        | VM.Audit (*) |\n|          | VM.Config    |\n");
    expect(cli.api.last("GET /api2/json/access/permissions").query.get("userid")).toBe("joe@pve!tok");
    const lines = ["user", "permissions", "joe@pve", "--noheader"];
    const utf8 = await cli.runPve("pveum", lines, { env: { LANG: "C.UTF-8" } });
    expect(utf8.out).toMatch(/^┌─+┬─+┐\n│ \/ +│ VM.Audit \(\*\) │\n/);
    const json = await pveum("user", "permissions", "joe@pve", "--output-format", "json");
    expect(json.out).toBe('{"/":{"VM.Audit":1,"VM.Config":0}}\n');
    cli.api.pve("PUT /access/password", null);
    await cli.runPve("pveum", ["passwd", "joe@pve"], { stdin: "from-a-pipe\n" });
    expect(cli.api.last("PUT /api2/json/access/password").form.get("password")).toBe("from-a-pipe");
    // Also where the output is a terminal, but the input is not.
    await cli.runPve("pveum", ["passwd", "joe@pve"], { stdin: "piped-secret\n", terminal: 80 });
    expect(cli.api.last("PUT /api2/json/access/password").form.get("password")).toBe("piped-secret");
    const asked = { terminal: 80, answers: ["secret-1", "secret-2"] };
    expect(await cli.runPve("pveum", ["passwd", "joe@pve"], asked)).toMatchObject({
      code: 255,
      err: "Passwords do not match.\n",
    });
    cli.api.pve("POST /access/ticket", { ticket: "PVE:root@pam:1" });
    const ticket = await cli.runPve("pveum", ["ticket", "joe@pve"], { terminal: 80, answers: ["secret-1"] });
    expect(ticket.out).toBe("PVE:root@pam:1\n");
  });

  test("pvenode: configuration, certificates, a task's log", async () => {
    const pvenode = (...words: string[]) => cli.runPve("pvenode", words);
    cli.api.pve(`GET ${node}/config`, { digest: "d", wakeonlan: "aa" });
    expect((await pvenode("config", "get")).out).toBe("wakeonlan: aa\n");
    cli.api.pve(`GET ${node}/certificates/info`, [
      { filename: "ca.pem", fingerprint: "AA", notbefore: 0, san: ["n1"] },
    ]);
    expect((await pvenode("cert", "info")).out).toMatch(
      /^Certificate 'ca.pem'\n\tFP: 'AA'\n\tnotBefore: \w{3} \w{3} [ \d]\d [\d:]{8} \d{4}\n\tSubjectAlternativeNames:\n\t\t-n1\n/,
    );
    const upid = task("vzdump", "OK", ["one", "two"]);
    expect((await pvenode("task", "log", upid)).out).toBe("one\ntwo\n");
    expect((await pvenode("task", "status", upid, "--noborder", "--noheader")).out).toContain(
      "exitstatus OK\n",
    );
  });

  test("vzdump takes guests as words", async () => {
    cli.api.pve(`POST ${node}/vzdump`, task("vzdump", "OK", ["INFO: done"]));
    expect(await cli.runPve("vzdump", ["100", "101", "--mode", "stop"])).toMatchObject({
      code: 0,
      out: "INFO: done\n",
    });
    expect(cli.api.last(`POST /api2/json${node}/vzdump`).form.get("vmid")).toBe("100,101");
    expect((await cli.runPve("vzdump", ["--bogus"])).err).toContain("vzdump [{<vmid>}] [OPTIONS]\n");
    expect((await cli.runPve("vzdump", ["help"])).out).toContain("--mode");
  });
});
