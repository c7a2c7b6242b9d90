import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeGuestAgent } from "../../testing/fake-guest-agent.ts";
import { GuestAgentClient } from "./guest-agent-client.ts";

describe("the guest agent's client", () => {
  let agent: FakeGuestAgent;
  let client: GuestAgentClient;

  beforeEach(async () => {
    agent = await FakeGuestAgent.start();
    client = new GuestAgentClient({ path: agent.path, label: "VM 100", syncTimeoutMs: 100 });
  });

  afterEach(async () => {
    client.close();
    await agent.stop();
  });

  it("syncs once and then asks", async () => {
    agent.answers.set("guest-get-osinfo", () => ({ id: "debian" }));
    expect(await client.execute("guest-get-osinfo")).toEqual({ id: "debian" });
    expect(await client.isRunning()).toBe(true);
    expect(agent.commands).toEqual(["guest-sync-delimited", "guest-get-osinfo", "guest-ping"]);
  });

  it("asks one command at a time, in order", async () => {
    agent.answers.set("echo", (args) => args["n"]);
    const answers = await Promise.all([1, 2, 3].map((n) => client.execute("echo", { n })));
    expect(answers).toEqual([1, 2, 3]);
  });

  it("says in PVE's words that no agent runs, with or without a channel", async () => {
    agent.running = false;
    const silence = {
      code: "guest_agent.unavailable",
      message: "QEMU guest agent is not running",
      pveStatus: 500,
    };
    await expect(client.execute("guest-ping")).rejects.toMatchObject(silence);
    expect(await client.isRunning()).toBe(false);
    agent.running = true;
    expect(await client.isRunning()).toBe(true);
    const nowhere = new GuestAgentClient({ path: `${agent.path}.none`, label: "VM 100" });
    await expect(nowhere.execute("guest-ping")).rejects.toMatchObject(silence);
  });

  it("gives the agent's own refusal", async () => {
    await expect(client.execute("guest-nonsense")).rejects.toMatchObject({
      code: "guest_agent.failed",
      message: "VM 100 qmp command 'guest-nonsense' failed - The command guest-nonsense has not been found",
      data: { class: "CommandNotFound" },
    });
    await expect(client.isRunning()).resolves.toBe(true);
    agent.answers.delete("guest-ping");
    await expect(client.isRunning()).rejects.toMatchObject({ code: "guest_agent.failed" });
  });

  it("finds the thread again after a time-out, whatever comes late", async () => {
    agent.answers.set("slow", () => "late");
    agent.held.add("slow");
    await expect(client.execute("slow", undefined, { timeoutMs: 30 })).rejects.toMatchObject({
      code: "request.timeout",
      message: "VM 100 qmp command 'slow' failed - got timeout",
    });
    agent.release();
    agent.send('{"half": ');
    agent.answers.set("next", () => "fresh");
    expect(await client.execute("next")).toBe("fresh");
    expect(agent.commands.filter((name) => name === "guest-sync-delimited")).toHaveLength(2);
  });

  it("passes over lines that are no answer", async () => {
    agent.answers.set("slow", () => 1);
    agent.held.add("slow");
    const answer = client.execute("slow");
    await expect.poll(() => agent.commands.at(-1)).toBe("slow");
    agent.send("noise\n7\n");
    agent.release();
    expect(await answer).toBe(1);
  });

  it("connects again after the channel broke, and fails what was under way", async () => {
    agent.answers.set("slow", () => 1);
    agent.held.add("slow");
    const broken = client.execute("slow").catch((err: unknown) => err);
    await expect.poll(() => agent.commands.at(-1)).toBe("slow");
    agent.drop();
    expect(await broken).toMatchObject({ code: "guest_agent.unavailable" });
    expect(await client.isRunning()).toBe(true);
  });

  it("does not wait for commands that end the guest", async () => {
    expect(await client.execute("guest-shutdown", { mode: "powerdown" }, { noReply: true })).toEqual({});
    await expect.poll(() => agent.commands.at(-1)).toBe("guest-shutdown");
    expect(await client.isRunning()).toBe(true);
  });

  it("stops waiting when the caller gives up", async () => {
    const gone = { signal: AbortSignal.abort() };
    await expect(client.execute("guest-ping", undefined, gone)).rejects.toMatchObject({
      code: "operation.cancelled",
    });
    agent.answers.set("slow", () => 1);
    agent.held.add("slow");
    const abort = new AbortController();
    const waiting = client.execute("slow", undefined, { signal: abort.signal }).catch((err: unknown) => err);
    await expect.poll(() => agent.commands.at(-1)).toBe("slow");
    abort.abort();
    expect(await waiting).toMatchObject({ code: "operation.cancelled" });
  });
});
