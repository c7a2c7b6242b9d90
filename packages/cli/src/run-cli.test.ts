import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AppError, errorKinds } from "@gpve/contracts/errors.ts";
import { fixedRoutes } from "@gpve/contracts/v1/routes.ts";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { allCommands } from "./commands.ts";
import { completeWords } from "./completion-words.ts";
import { causeLines, exitCodeOf, failureLine } from "./failure.ts";
import { durationSeconds, Input, wholeNumber } from "./input.ts";
import { nouns } from "./program.ts";
import { Gpvectl, NOW } from "./testing/run-gpvectl.ts";

describe("every command", () => {
  test.each(allCommands.map((spec) => [spec.name, spec] as const))(
    "%s has readable help",
    async (name, spec) => {
      await using ctl = await Gpvectl.create();
      const ran = await ctl.run([...name.split(" "), "--help"]);
      expect(ran).toMatchObject({ code: 0, err: "" });
      expect(ran.out).toMatch(new RegExp(`^Usage: gpvectl ${name}`));
      expect(ran.out).toContain(spec.summary.split(" ")[0]);
      expect(spec.summary).toMatch(/^[a-zA-Z]/);
      expect(spec.summary).not.toMatch(/\.$/);
      for (const line of ran.out.split("\n")) expect(line.length).toBeLessThanOrEqual(110);
      for (const option of spec.options ?? []) expect(option.about.length).toBeGreaterThan(3);
      for (const argument of spec.arguments ?? []) expect(argument.about.length).toBeGreaterThan(3);
      for (const example of spec.examples ?? []) expect(example.startsWith(name)).toBe(true);
      const placeholders = /[<[](.+?)(\.\.\.)?[>\]]/;
      const given = (spec.arguments ?? []).map((argument) => placeholders.exec(argument.name)?.[1] ?? "");
      const input = new Input({ arguments: Object.fromEntries(given.map((key) => [key, key])), options: {} });
      expect(spec.doing(input)).toMatch(/^[A-Za-z]/);
    },
  );

  test("has a name of its own, and its noun is explained", () => {
    const names = allCommands.map((spec) => spec.name);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) if (name.includes(" ")) expect(nouns).toHaveProperty(name.split(" ")[0] ?? "");
  });
});

describe("the command line", () => {
  test("without a command shows help and fails; --version and help succeed", async () => {
    await using ctl = await Gpvectl.create();
    expect(await ctl.run([])).toMatchObject({ code: 2, err: expect.stringContaining("Usage: gpvectl") });
    expect(await ctl.run(["task"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("running and finished work"),
    });
    expect(await ctl.run(["--version"])).toMatchObject({ code: 0, out: `${PRODUCT_VERSION}\n` });
    expect((await ctl.run(["help", "task"])).code).toBe(0);
  });

  test("mistakes are named, with a suggestion", async () => {
    await using ctl = await Gpvectl.create();
    expect(await ctl.run(["tsk", "list"])).toEqual({
      code: 2,
      out: "",
      err: "gpvectl: unknown command 'tsk'\n(Did you mean task?)\nSee: gpvectl --help\n",
    });
    expect((await ctl.run(["get"])).err).toBe(
      "gpvectl: missing required argument 'kind'\nSee: gpvectl get --help\n",
    );
    for (const argv of [
      ["task", "show"],
      ["task", "list", "--limit", "0"],
      ["task", "list", "--nope"],
      ["task", "list", "-o", "xml"],
      ["pool", "list", "--interval", "soon"],
      ["node", "list", "extra"],
    ]) {
      expect(await ctl.run(argv)).toMatchObject({
        code: 2,
        out: "",
        err: expect.stringMatching(/^gpvectl: /),
      });
    }
    expect(ctl.api.requests).toEqual([]);
  });

  test("global options work before and after the command", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api.pve("GET /pools", []);
    expect((await ctl.run(["-o", "json", "pool", "list"])).out).toBe("[]\n");
    expect((await ctl.run(["pool", "list", "-o", "json"])).out).toBe("[]\n");
  });

  test("no words crash it: each line ends with a documented exit code", async () => {
    await using ctl = await Gpvectl.create();
    // Offline commands and paths out of the test's folder stay out of a random walk.
    const online = allCommands.filter((spec) => !spec.name.startsWith("store "));
    const words = online.flatMap((spec) => [
      ...spec.name.split(" "),
      ...(spec.options ?? []).map((option) => /--[a-z-]+/.exec(option.flags)?.[0] ?? ""),
    ]);
    const word = fc.oneof(
      fc.constantFrom(...new Set(words)),
      fc.string().filter((text) => !/^\.|\//.test(text)),
      fc.constantFrom("-o", "json", "--", "-", "--data"),
    );
    const abort = new AbortController();
    abort.abort();
    const exits = new Set<number>([0, 130, ...Object.values(errorKinds).map((kind) => kind.exit)]);
    await fc.assert(
      fc.asyncProperty(fc.array(word, { maxLength: 6 }), async (argv) => {
        const ran = await ctl.run(argv, { signal: abort.signal });
        expect(exits).toContain(ran.code);
      }),
      { numRuns: 300 },
    );
  });

  test("numbers and durations are strict", () => {
    expect(wholeNumber(1, 5)("5")).toBe(5);
    for (const bad of ["6", "0", "-1", "1.5", "1e0", "x", ""])
      expect(() => wholeNumber(1, 5)(bad)).toThrow("1 to 5");
    expect(() => wholeNumber(3)("1")).toThrow("3 or more");
    expect(["90", "90s", "15m", "2h", "7d"].map(durationSeconds)).toEqual([90, 90, 900, 7200, 604_800]);
    for (const bad of ["", "m", "1w", "-1s", "1 h"])
      expect(() => durationSeconds(bad)).toThrow(/not a duration/);
    const empty = new Input({ arguments: {}, options: {} });
    expect(() => empty.arg("x")).toThrow("x is missing");
    expect([
      empty.optionalArg("x"),
      empty.args("x"),
      empty.texts("x"),
      empty.text("x"),
      empty.number("x"),
    ]).toEqual([undefined, [], [], undefined, undefined]);
  });
});

describe("failures", () => {
  const attempt = {
    doing: "delete pool p1",
    command: "pool delete",
    origin: "https://x",
    commands: ["pool list", "pool delete"],
  };

  test("are one line with the exit code of their kind", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api.pveError("DELETE /pools", 500, "delete pool failed: pool 'p1' does not exist");
    expect(await ctl.run(["pool", "delete", "p1"])).toEqual({
      code: 5,
      out: "",
      err: "gpvectl: cannot delete pool p1 on https://fake:8006: delete pool failed: pool 'p1' does not exist. See what there is: gpvectl pool list.\n",
    });
    ctl.api.pveError("POST /pools", 400, "Parameter verification failed.", { poolid: "invalid format" });
    expect(await ctl.run(["pool", "create", "p 1"])).toMatchObject({
      code: 2,
      err: "gpvectl: cannot create pool p 1 on https://fake:8006: Parameter verification failed (poolid: invalid format). See: gpvectl pool create --help.\n",
    });
    ctl.api.pveError("GET /pools", 501, "Method 'GET /pools' not implemented");
    const painted = (await ctl.run(["pool", "list"], { terminal: 80 })).err;
    expect([painted.startsWith("\u001b[31mgpvectl: "), painted.endsWith("\u001b[39m\n")]).toEqual([
      true,
      true,
    ]);
    expect((await ctl.run(["pool", "list"], { terminal: 80, env: { NO_COLOR: "1" } })).err).toMatch(
      /^gpvectl: /,
    );
  });

  test("--debug shows the chain of causes", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api.on("GET /api2/json/pools", { body: "<html>" });
    const ran = await ctl.run(["pool", "list", "--debug"]);
    expect(ran.code).toBe(1);
    expect(ran.err).toMatch(/\n {2}error internal.error: GET \/pools did not answer with JSON\n/);
    expect(ran.err).toMatch(/\n {2}caused by SyntaxError: /);
  });

  test("well-known refusals have a next step of their own", () => {
    const steps = {
      "VM 100 not running": "Start it: gpvectl vm start 100.",
      "VM 100 is not running": "Start it: gpvectl vm start 100.",
      "VM 100 is running - destroy failed": "Stop it first: gpvectl vm shutdown 100",
      "can't remove VM 100 - protection mode enabled": "gpvectl vm set 100 protection=0",
      "VM is locked (backup)": "gpvectl task list --running",
      "No QEMU guest agent configured": "agent=1",
      "QEMU guest agent is not running": "qemu-guest-agent",
      "snapshot feature is not available": "qcow2",
      "image 'alpine' cannot be built, only pulled": "gpvectl image pull alpine",
      "image 'tiny' cannot be pulled, only built": "gpvectl image build tiny",
      "there is no image 'x' in the catalogue; it has y": "gpvectl image list",
      "invalid server response: '404 Not Found'": "Check the address",
      "node 'n1' still has a guest: VM 100 (demo)": "gpvectl node drain n1",
      "hostname lookup 'n9' failed - failed to get address info": "gpvectl node list",
      "unable to create VM 105 - volume 'fast:iso/a.iso' does not exist":
        "gpvectl storage content fast --content iso",
      "disk 'scsi0' does not exist": "gpvectl vm config web.",
      "unable to parse volume ID 'x'": "gpvectl storage content local --content backup",
    };
    for (const [why, step] of Object.entries(steps))
      expect(
        failureLine(
          new AppError("operation.failed", why, { data: { upid: "U", doing: "use VM web" } }),
          attempt,
        ),
      ).toContain(step);
    const away = new AppError("node.unavailable", "Connection refused", { data: { status: 595 } });
    expect(failureLine(away, attempt)).toContain("See which nodes answer: gpvectl node list.");
    expect(failureLine(new AppError("node.unavailable", "cannot reach it"), attempt)).toContain(
      "./gpve status",
    );
    const noStorage = new AppError("request.invalid", "Parameter verification failed.", {
      errors: { storage: "No such storage." },
    });
    expect(failureLine(noStorage, attempt)).toContain("gpvectl storage list");
    const bad = new AppError("request.invalid", "Parameter verification failed.", {
      errors: { memory: String.raw`format error\nmemory.current: type check failed` },
    });
    expect(failureLine(bad, attempt)).toContain("(memory: format error; memory.current: type check failed)");
    const tier = new AppError("request.invalid", "spec.tier: must be one of Starter, Standard", {
      errors: { "spec.tier": "must be one of Starter, Standard" },
    });
    expect(failureLine(tier, attempt).match(/must be one of/g)).toHaveLength(1);
    const why = "minors are not skipped";
    const skipped = new AppError("request.invalid", `it cannot be upgraded: ${why}`, {
      errors: { version: why },
    });
    expect(failureLine(skipped, attempt)).toContain(`it cannot be upgraded: ${why}. See:`);
    const stopped = new AppError("object.conflict", "it is Stopped: start it (gpvectl vc start demo)");
    expect(failureLine(stopped, attempt)).toMatch(/start it \(gpvectl vc start demo\)\.$/);
  });

  test("each kind has its next step", () => {
    const codes = {
      "request.invalid": "See: gpvectl pool delete --help.",
      "auth.failed": "Log in again: gpvectl login.",
      "access.denied": "privilege",
      "object.not_found": "gpvectl pool list",
      "object.exists": "another name",
      "object.conflict": "Read it again",
      "resource.busy": "gpvectl task list --running",
      "capacity.exceeded": "Free some",
      "feature.unsupported": "gpvectl api coverage",
      "node.unavailable": "./gpve status",
      "request.timeout": "--timeout",
      "internal.error": "--debug",
    } as const;
    for (const [code, hint] of Object.entries(codes)) {
      const err = new AppError(code as keyof typeof codes, "why");
      expect(failureLine(err, attempt)).toContain(`cannot delete pool p1 on https://x: why. `);
      expect(failureLine(err, attempt)).toContain(hint);
      expect(exitCodeOf(err)).toBe(errorKinds[err.kind].exit);
    }
    const deployer = { ...attempt, command: "talos status" };
    for (const code of ["auth.failed", "access.denied", "resource.busy", "node.unavailable"] as const) {
      expect(failureLine(new AppError(code, "why"), deployer)).toContain("gpvectl talos preflight.");
      const told = new AppError(code, "why", { data: { finding: "platform-unreachable" } });
      expect(failureLine(told, deployer)).toMatch(/why\.$/);
    }
    expect(failureLine(new Error("odd!"), { ...attempt, origin: undefined })).toBe(
      "gpvectl: cannot delete pool p1: odd! Run it again with --debug and report what it shows.",
    );
    const elsewhere = { ...attempt, command: "vm create", commands: ["vm list", "storage list"] };
    expect(failureLine(new AppError("object.not_found", "storage 'x' does not exist"), elsewhere)).toContain(
      "gpvectl storage list",
    );
    expect(failureLine(new AppError("object.not_found", "x"), { ...attempt, command: "get" })).toContain(
      "get --help",
    );
    expect(exitCodeOf(new Error("x"))).toBe(1);
    expect(
      causeLines(new AppError("internal.error", "a", { data: { x: 1 }, cause: "b" })).join("\n"),
    ).toContain('    data {"x":1}');
  });
});

describe("completion", () => {
  const complete = (...words: string[]): readonly string[] => completeWords(allCommands, words);

  test("offers commands, verbs, options and their values", () => {
    expect(complete("ta")).toEqual(["talos", "task"]);
    expect(complete("task", "")).toEqual(["cancel", "follow", "list", "show"]);
    expect(complete("--data", "/x", "task", "s")).toEqual(["show"]);
    expect(complete("task", "list", "--ru")).toEqual(["--running"]);
    expect(complete("task", "list", "-o", "")).toEqual(["table", "wide", "json", "yaml"]);
    expect(complete("task", "list", "--node", "")).toEqual([]);
    expect(complete("completion", "z")).toEqual(["zsh"]);
    expect(complete("")).toContain("help");
    expect(complete("nonsense", "")).toEqual([]);
    expect(complete("--he")).toEqual(["--help"]);
  });

  test("the scripts ask gpvectl itself", async () => {
    await using ctl = await Gpvectl.create();
    for (const shell of ["bash", "zsh", "fish"]) {
      expect((await ctl.run(["completion", shell])).out).toContain("gpvectl completion words -- ");
    }
    expect((await ctl.run(["completion", "words", "--", "pool", "list", "--wa"])).out).toBe("--watch\n");
    expect((await ctl.run(["completion", "tcsh"])).code).toBe(2);
  });
});

describe("status, version, nodes and audit", () => {
  test("status sums up", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api
      .pve("GET /version", { version: "9.2.11" })
      .pve("GET /nodes", [
        { node: "n1", status: "online" },
        { node: "n2", status: "offline" },
      ])
      .pve("GET /cluster/resources", [
        { type: "qemu", status: "running" },
        { type: "lxc", status: "stopped" },
        { type: "node" },
      ])
      .pve("GET /cluster/tasks", [{}, { endtime: 5, status: "OK" }, { endtime: 5, status: "broke" }]);
    expect((await ctl.run(["status"])).out).toBe(
      [
        "Server:      https://fake:8006",
        "Chosen by:   environment (GPVE_URL)",
        "Speaks PVE:  9.2.11",
        "Nodes:       1 of 2 online",
        "Guests:      1 of 2 running",
        "Tasks:       1 running, 1 failed lately",
        "Node n2 is offline.",
        "",
      ].join("\n"),
    );
    expect(JSON.parse((await ctl.run(["status", "-o", "json"])).out)).toMatchObject({
      nodes: { online: 1, known: 2 },
    });
  });

  test("version works without a server, and fails when a chosen one does not answer", async () => {
    await using ctl = await Gpvectl.create();
    const none = { env: { GPVE_URL: "" } };
    expect((await ctl.run(["version"], none)).out).toBe(`gpvectl:  ${PRODUCT_VERSION}\n`);
    expect((await ctl.run(["version", "--client"])).out).toBe(`gpvectl:  ${PRODUCT_VERSION}\n`);
    expect((await ctl.run(["version"])).code).toBe(10);
    expect((await ctl.run(["version", "--context", "x"], none)).code).toBe(5);
  });

  test("nodes are listed, shown, probed; a join command carries its token", async () => {
    await using ctl = await Gpvectl.create();
    const upid = "UPID:n1:1:";
    ctl.api
      .pve("GET /nodes", [
        {
          node: "n1",
          status: "online",
          cpu: 0.25,
          maxcpu: 4,
          mem: 1024 ** 3,
          maxmem: 4 * 1024 ** 3,
          disk: 1,
          uptime: 60,
        },
      ])
      .pve("GET /nodes/n1/status", {
        kversion: "Linux 6.1",
        cpuinfo: { cpus: 4 },
        loadavg: ["0.1", "0.2", "0.3"],
      })
      .on("GET /api/v1/nodes/n1/capabilities", {
        body: { capabilities: [{ name: "kvm", available: false, detail: "no /dev/kvm", fix: "enable it" }] },
      })
      .on("POST /api/v1/nodes/n1/probe", { status: 202, body: { task: upid } })
      .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
      .pve(`GET /nodes/n1/tasks/${upid}/log`, [])
      .on("POST /api/v1/join-tokens", {
        status: 201,
        body: { token: "tok", expiresAt: "2026-01-02T04:00:00Z", caFingerprint: "AB" },
      });
    expect((await ctl.run(["node", "list"])).out).toBe(
      "NODE  STATUS     CPU  CPUS  MEMORY       OF  DISK  OF  UPTIME\nn1    online  25.0 %  4     25.0 %  4.0 GiB     -   -      1m\n",
    );
    expect((await ctl.run(["node", "show", "n1"])).out).toBe(
      "Node:    n1\nKernel:  Linux 6.1\nCPUs:    4\nLoad:    0.1,0.2,0.3\n",
    );
    expect((await ctl.run(["node", "capabilities", "n1"])).out).toBe(
      "CAPABILITY  AVAILABLE  DETAIL       FIX\nkvm         no         no /dev/kvm  enable it\n",
    );
    expect((await ctl.run(["node", "probe", "n1"])).out).toContain("Node n1 has been probed");
    expect((await ctl.run(["node", "probe", "n1", "--no-wait"])).out).toBe(`${upid}\n`);
    expect(JSON.parse((await ctl.run(["node", "probe", "n1", "--no-wait", "-o", "json"])).out)).toEqual({
      upid,
    });
    const join = await ctl.run(["node", "join-command", "--node", "n2", "--ttl", "15m"]);
    expect(join.out).toBe(
      [
        "(umask 077; cat > gpve-agent.yaml) <<EOF && ./gpve agent --config gpve-agent.yaml",
        "apiVersion: gpve.io/v1",
        "kind: AgentConfiguration",
        "agent:",
        '  nodeName: "n2"',
        "  address: \"$(hostname -I | cut -d' ' -f1)\"",
        "server:",
        '  endpoint: "https://fake:8006"',
        '  token: "tok"',
        "EOF",
        "",
      ].join("\n"),
    );
    expect((await ctl.run(["node", "join-command", "--node", "a$(b)"])).code).toBe(2);
    const local = await ctl.run(["node", "join-command", "--endpoint", "https://127.0.0.1:8006"]);
    expect(local.err).toContain("name an address of this server with --endpoint");
    expect(join.err).toBe("Run it on the new machine before 2026-01-02T04:00:00Z; it works once.\n");
    ctl.api.on("POST /api/v1/join-tokens", {
      status: 201,
      body: { token: "tok", servers: ["https://10.0.0.1:8006", "https://10.0.0.2:8006"] },
    });
    const endpoints = async (...more: readonly string[]) => {
      const { out } = await ctl.run(["node", "join-command", ...more]);
      return [...out.matchAll(/^ {4}- "(.*)"$/gm)].map(([, url]) => url);
    };
    expect(await endpoints("--endpoint", "https://10.0.0.2:8006/")).toEqual([
      "https://10.0.0.2:8006",
      "https://10.0.0.1:8006",
    ]);
    expect(await endpoints()).toEqual([
      "https://fake:8006",
      "https://10.0.0.1:8006",
      "https://10.0.0.2:8006",
    ]);
    const hostile = { token: "tok", servers: ["https://x$(reboot)"] };
    ctl.api.on("POST /api/v1/join-tokens", { status: 201, body: hostile });
    expect((await ctl.run(["node", "join-command"])).out).not.toContain("reboot");
    ctl.api.on("POST /api/v1/join-tokens", { status: 201, body: { token: "tok" } });
    const asked = ctl.api.requests.find((request) => request.path === "/api/v1/join-tokens");
    expect(JSON.parse(asked?.body ?? "")).toEqual({
      node: "n2",
      ttlSeconds: 900,
    });
    expect(JSON.parse((await ctl.run(["node", "join-command", "-o", "json"])).out)).toHaveProperty(
      "token",
      "tok",
    );
    ctl.api.on("POST /api/v1/join-tokens", { body: {} });
    expect((await ctl.run(["node", "join-command"])).code).toBe(1);
  });

  test("audit list and verify", async () => {
    await using ctl = await Gpvectl.create();
    const entry = {
      seq: 7,
      timestamp: new Date(NOW).toISOString(),
      user: "joe@pve",
      verb: "delete",
      resource: "/pools",
      name: "dev",
      statusCode: 200,
    };
    ctl.api.on("GET /api/v1/audit", { body: { entries: [entry] } });
    expect((await ctl.run(["audit", "list", "--user", "joe@pve"])).out).toBe(
      [
        "NUMBER  TIME                  USER     VERB    RESOURCE  NAME  STATUS",
        "7       2026-01-02 03:04:05Z  joe@pve  delete  /pools    dev   200",
        "",
      ].join("\n"),
    );
    expect(ctl.api.requests[0]?.query.toString()).toBe("limit=50&user=joe%40pve");
    const flags = ["--before", "9", "--user", "u", "--verb", "v", "--resource", "r", "--status", "4xx"];
    await ctl.run(["audit", "list", ...flags, "--since", "2026-01-01", "--until", "2026-01-02"]);
    const declared = fixedRoutes.find((route) => route.operationId === "listAudit")?.query ?? [];
    expect([...ctl.api.last("GET /api/v1/audit").query.keys()].toSorted()).toEqual(
      declared.map((parameter) => parameter.name).toSorted(),
    );
    ctl.api.on("GET /api/v1/audit/verify", { body: { ok: true, entries: 7, issues: [] } });
    expect((await ctl.run(["audit", "verify"])).out).toBe(
      "The audit log is whole: 7 entries in one unbroken chain.\n",
    );
    const issue = { kind: "changed", file: "a.log", line: 3, detail: "hash differs" };
    ctl.api.on("GET /api/v1/audit/verify", { body: { ok: false, entries: 7, issues: [issue] } });
    expect(await ctl.run(["audit", "verify"])).toEqual({
      code: 1,
      out: "KIND     FILE   LINE  DETAIL\nchanged  a.log  3     hash differs\n",
      err: "gpvectl: cannot vouch for the audit log on https://fake:8006: it was tampered with or damaged (1 findings). Compare with a copy of the log that is kept elsewhere.\n",
    });
    expect((await ctl.run(["audit", "verify", "-o", "json"])).code).toBe(1);
  });
});
