import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeQmpServer, FakeRefusal, NO_ANSWER } from "../../testing/fake-qmp-server.ts";
import { qmpConformance } from "../../testing/qmp-conformance.ts";
import { QmpClient } from "./qmp-client.ts";
import { deviceIds, unplugDevice, waitForJob } from "@gpve/domain/vm/qmp/qmp-waits.ts";

describe("monitors on sockets", () => {
  qmpConformance(async () => {
    const [commands, events] = [await FakeQmpServer.start(), await FakeQmpServer.start()];
    const label = "VM 100";
    const qmp = await QmpClient.open({ commandPath: commands.path, eventPath: events.path, label });
    const end = async () => {
      await commands.stop();
      await events.stop();
    };
    return {
      qmp,
      answer: (command, answer) =>
        void commands.answer(command, () => {
          if (answer === "nothing") return NO_ANSWER;
          return "refusal" in answer ? new FakeRefusal(answer.refusal) : answer.result;
        }),
      event: (name, data) => events.event(name, data),
      end,
      close: async () => {
        qmp.close();
        await end();
      },
    };
  });
});

describe("the two monitors of a VM", () => {
  let commands: FakeQmpServer;
  let events: FakeQmpServer;
  let client: QmpClient;

  beforeEach(async () => {
    commands = await FakeQmpServer.start();
    events = await FakeQmpServer.start();
    client = await QmpClient.open({ commandPath: commands.path, eventPath: events.path, label: "VM 100" });
  });

  afterEach(async () => {
    client.close();
    await commands.stop();
    await events.stop();
  });

  it("sends typed commands on one and hears events on the other", async () => {
    commands.answer("query-status", () => ({ status: "running", running: true }));
    const seen = client.events.stream();
    const first = seen.next();
    expect(await client.execute("query-status")).toEqual({ status: "running", running: true });
    events.event("STOP");
    expect(await first).toMatchObject({ value: { name: "STOP" } });
    expect(client.greeting?.version.major).toBe(7);
    client.close();
    expect(await seen.next()).toMatchObject({ done: true });
  });

  it("ends a stream when the listener's signal says so", async () => {
    const abort = new AbortController();
    const seen = client.events.stream(abort.signal);
    const first = seen.next();
    abort.abort();
    expect(await first).toMatchObject({ done: true });
  });

  it("connects again for the next command after the connection broke", async () => {
    commands.answer("stop", () => ({}));
    await client.execute("stop");
    commands.dropClients();
    await expect
      .poll(async () => await client.execute("stop").catch((err: AppError) => err.code))
      .toEqual({});
  });

  it("never repeats a command whose answer was lost", async () => {
    commands.answer("quit", (_command, server) => {
      server.dropClients();
      return NO_ANSWER;
    });
    await expect(client.execute("quit")).rejects.toMatchObject({ code: "qmp.disconnected" });
    expect(commands.received.filter(({ execute }) => execute === "quit")).toHaveLength(1);
  });

  it("goes on connecting for others when the one who began it gives up", async () => {
    commands.answer("quit", (_command, server) => {
      server.dropClients();
      return NO_ANSWER;
    });
    commands.answer("stop", () => ({}));
    await expect(client.execute("quit")).rejects.toMatchObject({ code: "qmp.disconnected" });
    commands.greets = false;
    const abort = new AbortController();
    const first = client.execute("stop", undefined, { signal: abort.signal });
    const second = client.execute("stop");
    await expect.poll(() => commands.clientCount).toBe(1);
    abort.abort();
    await expect(first).rejects.toMatchObject({ code: "operation.cancelled" });
    commands.send(
      '{"QMP":{"version":{"qemu":{"major":7,"minor":2,"micro":0},"package":""},"capabilities":[]}}\n',
    );
    expect(await second).toEqual({});
  });

  it("hears events again after the event connection broke, and tells listeners of the gap", async () => {
    let gaps = 0;
    const names: string[] = [];
    client.events.listen({ onEvent: (event) => names.push(event.name), onReset: () => (gaps += 1) });
    events.dropClients();
    await expect.poll(() => gaps).toBe(1);
    events.event("RESUME");
    await expect.poll(() => names).toEqual(["RESUME"]);
  });

  it("ends when QEMU is gone", async () => {
    let told = false;
    client.events.listen({ onEvent: () => undefined, onEnd: () => (told = true) });
    await events.stop();
    await client.ended;
    expect(told).toBe(true);
    await expect(client.execute("stop")).rejects.toMatchObject({ code: "qmp.disconnected" });
    let late = false;
    client.events.listen({ onEvent: () => undefined, onEnd: () => (late = true) });
    expect(late).toBe(true);
  });

  it("says that the VM is not running when nobody listens", async () => {
    await commands.stop();
    await events.stop();
    await expect(
      QmpClient.open({ commandPath: commands.path, eventPath: events.path, label: "VM 100" }),
    ).rejects.toMatchObject({ code: "qmp.disconnected", message: "VM 100 not running" });
  });

  it("waits until the guest has let go of an unplugged device", async () => {
    const seen: unknown[] = [];
    client.events.listen({ onEvent: ({ data }) => seen.push(data["path"]) });
    commands.answer("device_del", () => {
      setImmediate(() => events.event("DEVICE_DELETED", { path: "/machine/peripheral/other" }));
      return {};
    });
    let done = false;
    const unplugged = unplugDevice(client, "scsi1").then(() => (done = true));
    await expect.poll(() => seen).toEqual(["/machine/peripheral/other"]);
    expect(done).toBe(false);
    events.event("DEVICE_DELETED", { device: "scsi1", path: "/machine/peripheral/scsi1" });
    await unplugged;
    expect(done).toBe(true);
  });

  it("takes a device that is not there as unplugged and passes other refusals on", async () => {
    commands.answer("device_del", () => new FakeRefusal("Device 'x' not found", "DeviceNotFound"));
    await unplugDevice(client, "x");
    commands.answer("device_del", () => new FakeRefusal("Bus does not support hotplugging"));
    await expect(unplugDevice(client, "x")).rejects.toThrow("Bus does not support hotplugging");
    commands.answer("device_del", () => {
      setImmediate(() => events.event("DEVICE_UNPLUG_GUEST_ERROR", { device: "x", path: "/x" }));
      return {};
    });
    await expect(unplugDevice(client, "x")).rejects.toThrow(
      "error on hot-unplugging device 'x' - still busy in guest?",
    );
  });

  it("gives a time-out when the guest ignores the unplug request, and asks again after a gap", async () => {
    commands.answer("device_del", () => ({}));
    await expect(unplugDevice(client, "x", { timeoutMs: 50 })).rejects.toMatchObject({
      code: "request.timeout",
    });
    commands.answer("qom-list", () => [
      { name: "type", type: "string" },
      { name: "y", type: "child<e1000>" },
    ]);
    expect([...(await deviceIds(client))]).toEqual(["y"]);
    const waiting = unplugDevice(client, "x");
    await expect.poll(() => commands.received.at(-1)?.execute).toBe("device_del");
    events.dropClients();
    await waiting;
  });

  it("ends waits for events when QEMU ends or the caller gives up", async () => {
    const abort = new AbortController();
    const first = client.events.waitFor("x", () => undefined, { signal: abort.signal });
    const second = client.events.waitFor("x", () => undefined);
    const outcomes = Promise.allSettled([first.result, second.result]);
    abort.abort();
    await events.stop();
    expect((await outcomes).map((o) => (o as { reason?: AppError }).reason?.code)).toEqual([
      "operation.cancelled",
      "qmp.disconnected",
    ]);
    const third = client.events.waitFor("x", () => undefined, { signal: abort.signal });
    await expect(third.result).rejects.toBeInstanceOf(AppError);
  });

  it("follows a job until it is ready", async () => {
    const states = ["created", "running", "ready"];
    commands.answer("query-jobs", () => {
      const status = states.shift() ?? "ready";
      setImmediate(() => events.event("JOB_STATUS_CHANGE", { id: "j", status }));
      return [{ id: "j", type: "mirror", status, "current-progress": 1, "total-progress": 2 }];
    });
    const seen: string[] = [];
    const job = await waitForJob(client, "j", ["ready"], { onProgress: (now) => seen.push(now.status) });
    expect(job.status).toBe("ready");
    expect(seen).toEqual(["created", "running", "ready"]);
  });

  it("fails with the job's error, its disappearance, its early end, the time-out or the abort", async () => {
    const job = { id: "j", type: "mirror", status: "concluded", "current-progress": 0, "total-progress": 0 };
    commands.answer("query-jobs", () => [{ ...job, error: "No space left on device" }]);
    await expect(waitForJob(client, "j", ["concluded"])).rejects.toThrow("No space left on device");
    commands.answer("query-jobs", () => []);
    await expect(waitForJob(client, "j", ["concluded"])).rejects.toThrow("job 'j' is gone");
    commands.answer("query-jobs", () => [job]);
    await expect(waitForJob(client, "j", ["ready"])).rejects.toThrow("without reaching ready");
    commands.answer("query-jobs", () => [{ ...job, status: "running" }]);
    await expect(waitForJob(client, "j", ["ready"], { timeoutMs: 0 })).rejects.toMatchObject({
      code: "request.timeout",
    });
    const abort = new AbortController();
    const waiting = waitForJob(client, "j", ["ready"], {
      signal: abort.signal,
      onProgress: () => setImmediate(() => abort.abort()),
    });
    await expect(waiting).rejects.toMatchObject({ code: "operation.cancelled" });
  });
});
