import { createServer as createHttpServer } from "node:http";
import type { AddressInfo, Server } from "node:net";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FakeNetwork } from "../testing/fake-network.ts";
import { probesConformance } from "../testing/probes-conformance.ts";
import { NetworkProbes, type ProbeDeps, realNetwork } from "./network-probes.ts";

const sign = { how: "port 22 is open", mac: "AA:BB:CC:00:00:01", isSure: true };

describe("in memory", () => {
  const probes = new FakeNetwork();
  probes.answering.set("10.0.0.10", sign);
  probes.factories.set("https://factory", ["v1.13.9"]);
  probes.timeless.set("time.silent", "nobody answers");
  probesConformance(() => ({
    probes,
    taken: "10.0.0.10",
    free: "10.0.0.11",
    factory: "https://factory",
    silent: "https://silent",
    clock: "time.example.org",
    timeless: "time.silent",
  }));
});

describe("on sockets", () => {
  const servers: Server[] = [];
  const listen = (server: Server) =>
    new Promise<number>((resolve) => {
      servers.push(server);
      server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
    });
  let port = 0;
  let factory = "";
  beforeAll(async () => {
    port = await listen(createServer((socket) => socket.destroy()));
    const answers: Readonly<Record<string, string>> = {
      "/versions": '["v1.13.8","v1.13.9","v1.13.10"]',
      "/versions?broken=true": '["v1.13.10"]',
    };
    const web = createHttpServer((request, response) => response.end(answers[request.url ?? ""]));
    factory = `http://127.0.0.1:${await listen(web)}`;
  });
  afterAll(() => {
    for (const server of servers) server.close();
  });
  const around = (more: Partial<ProbeDeps> = {}): NetworkProbes =>
    new NetworkProbes({
      ...realNetwork,
      own: () => [],
      neighbours: async () => "",
      // Its own port is not for everybody; what is said on one has a test of its own.
      askTime: async (server) => (server === "127.0.0.1" ? undefined : realNetwork.askTime(server)),
      ...more,
    });

  probesConformance(() => ({
    // Ports of this machine stand for those that are tried.
    probes: around({ tryPort: (address, tried) => realNetwork.tryPort(address, tried === 22 ? port : 1) }),
    taken: "127.0.0.1",
    free: "127.0.0.250",
    factory,
    silent: "http://127.0.0.1:1",
    clock: "127.0.0.1",
    timeless: "no-such-host.invalid",
  }));

  test("broken releases are not among a factory's versions", async () => {
    expect(await around().versions(factory)).toEqual(["v1.13.8", "v1.13.9"]);
  });

  test("what the kernel itself knows is asked", async () => {
    expect(realNetwork.own()).toContain("127.0.0.1");
    expect(typeof (await realNetwork.neighbours())).toBe("string");
    expect(await new NetworkProbes().address("127.0.0.1")).toMatchObject({ isSure: true });
    expect(await new NetworkProbes().address("k8s.example.org")).toBeUndefined();
  });
});

describe("who answers", () => {
  const HEAD = "IP address       HW type     Flags       HW address            Mask     Device\n";
  const line = (flags: string) =>
    `${HEAD}10.0.0.10        0x1         ${flags}         aa:bb:cc:00:00:01     *        vmbr0\n`;
  const probe = (answer: "open" | "refused" | undefined, table: string) =>
    new NetworkProbes({
      tryPort: async (_address, tried) => (tried === 22 ? answer : undefined),
      neighbours: async () => table,
      own: () => [],
      fetch: () => Promise.reject(new Error("nothing is fetched")),
      askTime: () => Promise.reject(new Error("no time is asked for")),
    }).address("10.0.0.10");

  test.each([
    ["a neighbour with an open port", "open", line("0x2"), sign],
    ["a neighbour that refuses", "refused", line("0x2"), { ...sign, how: "port 22 refuses connections" }],
    [
      "a neighbour that may have gone",
      undefined,
      line("0x2"),
      { ...sign, how: "it is known in this network", isSure: false },
    ],
    ["nobody, though something answers for all", "open", line("0x0"), undefined],
    ["nobody", undefined, line("0x0"), undefined],
    [
      "somebody behind a gateway, or the gateway",
      "open",
      HEAD,
      { how: "port 22 is open, through a gateway", mac: undefined, isSure: false },
    ],
    ["a gateway that refuses", "refused", HEAD, undefined],
  ] as const)("%s", async (_who, answer, table, expected) => {
    expect(await probe(answer, table)).toEqual(expected);
  });
});
