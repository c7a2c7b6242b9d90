import { createSign, generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { createSealer } from "../secrets/sealer.ts";
import { TicketKeys, generatePem } from "./ticket-keys.ts";
import { parseTicket, ticketText } from "./ticket-text.ts";
import type { Tickets } from "./tickets.ts";
import { openTickets } from "./tickets.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MINUTE = 60_000;

let store: Store;
let records: Records & { close(): Promise<void> };
let clock: FakeClock;
let tickets: Tickets;
const sealer = createSealer(new Uint8Array(32).fill(3));
const log = { error: (): void => undefined };
const pems = [generatePem(), generatePem(), generatePem()];
let made = 0;

function server(on: Records = records): Promise<Tickets> {
  const newKey = async (): Promise<string> => (await pems[made++ % pems.length]) ?? "";
  return openTickets({ keys: new TicketKeys({ records: on, sealer, clock, newKey }), clock });
}

beforeEach(async () => {
  made = 0;
  clock = new FakeClock(Date.UTC(2026, 5, 1));
  store = openSqliteStore({ path: ":memory:" });
  records = await openRecords(store, { prefix: "/gpve/", log });
  tickets = await server();
});
afterEach(async () => {
  await records.close();
  await store.close();
});

describe("tickets", () => {
  test("have PVE's form and live two hours", async () => {
    const ticket = await tickets.issue("joe@pve");
    expect(ticket).toMatch(/^PVE:joe@pve:[0-9A-F]{8}::[A-Za-z0-9+/]+=*$/);
    expect(tickets.verify(ticket)).toEqual({ userid: "joe@pve", ageSeconds: 0 });
    await clock.advance(2 * HOUR - 1_000);
    expect(tickets.verify(ticket)).toEqual({ userid: "joe@pve", ageSeconds: 7_199 });
    await clock.advance(1_000);
    expect(tickets.verify(ticket)).toBeUndefined();
    expect((await server()).verify(ticket)).toBeUndefined();
  });

  test("are valid on every server that shares the store", async () => {
    const second = await openRecords(store, { prefix: "/gpve/", log });
    const other = await server(second);
    expect(other.verify(await tickets.issue("joe@pve"))?.userid).toBe("joe@pve");
    expect(other.verifyCsrf("joe@pve", tickets.issueCsrf("joe@pve"))).toBe(true);
    expect(made).toBe(1);
    await second.close();
  });

  test("the key changes every day, and its predecessor still verifies", async () => {
    await clock.advance(DAY - MINUTE);
    const before = await tickets.issue("joe@pve");
    await clock.advance(2 * MINUTE);
    const after = await tickets.issue("joe@pve");
    expect(made).toBe(2);
    for (const each of [tickets, await server()]) {
      expect(each.verify(before)?.userid).toBe("joe@pve");
      expect(each.verify(after)?.userid).toBe("joe@pve");
    }
    await clock.advance(2 * HOUR - 2 * MINUTE);
    expect(tickets.verify(before)).toBeUndefined();
    expect(tickets.verify(after)?.userid).toBe("joe@pve");
  });

  test("a key replaced twice verifies nothing, remembered or not", async () => {
    const old = await tickets.issue("joe@pve");
    expect(tickets.verify(old)).toBeDefined();
    await clock.advance(DAY);
    await tickets.issue("joe@pve");
    await clock.advance(DAY);
    await tickets.issue("joe@pve");
    expect(tickets.verify(old)).toBeUndefined();
  });

  test("two servers replacing the key at once agree on one", async () => {
    const second = await openRecords(store, { prefix: "/gpve/", log });
    const other = await server(second);
    await clock.advance(DAY);
    const [a, b] = await Promise.all([tickets.issue("joe@pve"), other.issue("ann@pve")]);
    await Promise.all([records.fresh(), second.fresh()]);
    for (const each of [tickets, other]) {
      expect(each.verify(a)?.userid).toBe("joe@pve");
      expect(each.verify(b)?.userid).toBe("ann@pve");
    }
    await second.close();
  });

  test("the future is trusted for five minutes only", async () => {
    await clock.advance(HOUR);
    const ticket = await tickets.issue("joe@pve");
    await clock.advance(-4 * MINUTE);
    expect(tickets.verify(ticket)?.ageSeconds).toBe(-240);
    await clock.advance(-2 * MINUTE);
    expect(tickets.verify(ticket)).toBeUndefined();
  });

  test("an old key that nobody replaced signs nothing new", async () => {
    const pem = await pems[0];
    await clock.advance(25 * HOUR);
    const text = ticketText("PVE", "joe@pve", Math.floor(clock.now() / 1000));
    const signature = createSign("sha256")
      .update(text)
      .sign(pem ?? "", "base64");
    expect(tickets.verify(`${text}::${signature}`)).toBeUndefined();
  });

  test("forged, cut and changed ones are refused", async () => {
    const ticket = await tickets.issue("joe@pve");
    const stranger = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
    const text = ticket.slice(0, ticket.indexOf("::"));
    const forged = `${text}::${createSign("sha256").update(text).sign(stranger, "base64")}`;
    expect(tickets.verify(forged)).toBeUndefined();
    expect(tickets.verify(ticket.replace("joe@pve", "root@pam"))).toBeUndefined();
    fc.assert(
      fc.property(fc.nat({ max: ticket.length - 1 }), (length) => {
        expect(tickets.verify(ticket.slice(0, length))).toBeUndefined();
      }),
    );
    fc.assert(
      fc.property(
        fc.nat({ max: ticket.length - 3 }),
        fc.constantFrom("A", "b", "0", ":", "%", " "),
        (at, letter) => {
          if (ticket[at] === letter) return;
          expect(tickets.verify(ticket.slice(0, at) + letter + ticket.slice(at + 1))).toBeUndefined();
        },
      ),
    );
    expect(tickets.verify(ticket)?.userid).toBe("joe@pve");
  });

  test("memory of checked tickets is bounded", async () => {
    const ticket = await tickets.issue("joe@pve");
    for (let i = 0; i < 3; i++) expect(tickets.verify(ticket)).toBeDefined();
    const started = process.cpuUsage().user / 1000;
    for (let i = 0; i < 10_000; i++) tickets.verify(ticket);
    expect(process.cpuUsage().user / 1000 - started).toBeLessThan(1_000);
  });
});

describe("the text of tickets", () => {
  test("data with colons is encoded and comes back", () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[!-~ ]{1,30}$/), fc.nat({ max: 0xffffffff }), (data, time) => {
        const text = ticketText("PVE", data, time);
        expect(parseTicket(`${text}::QUJD`, "PVE")).toMatchObject({ data, time, signed: text });
      }),
    );
  });

  test("anything else parses to nothing, without throwing", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(parseTicket(text, "PVE")).toBeUndefined();
        expect(parseTicket(`PVE:${text}`, "PVE")).toBeUndefined();
      }),
    );
    for (const text of [
      "PVE:a:00000000",
      "PVE:a:zzzzzzzz::QQ==",
      "PVE:a:b:00000000::QQ==",
      "PVE::00000000::QQ==",
      "PVE:%:00000000::QQ==",
      `PVE:a:00000000::${"A".repeat(5_000)}`,
    ]) {
      expect(parseTicket(text, "PVE")).toBeUndefined();
    }
  });
});

describe("CSRF tokens", () => {
  test("belong to one user and two hours", async () => {
    const token = tickets.issueCsrf("joe@pve");
    expect(tickets.verifyCsrf("joe@pve", token)).toBe(true);
    expect(tickets.verifyCsrf("ann@pve", token)).toBe(false);
    for (const wrong of ["", "x", token.slice(0, -1), `${token}=`, token.replace(/^./, "0")]) {
      expect(tickets.verifyCsrf("joe@pve", wrong)).toBe(false);
    }
    await clock.advance(2 * HOUR);
    expect(tickets.verifyCsrf("joe@pve", token)).toBe(false);
  });
});

describe("console tickets", () => {
  test("are bound to who, what and where, and short-lived", async () => {
    const ticket = await tickets.issueVnc("joe@pve!ci", "/vms/100", 5900);
    expect(ticket).toMatch(/^PVEVNC:[0-9A-F]{8}::/);
    expect(tickets.verifyVnc(ticket, "joe@pve!ci", "/vms/100", 5900)).toBe(true);
    expect(tickets.verifyVnc(`abcdefgh:${ticket}`, "joe@pve!ci", "/vms/100", 5900)).toBe(true);
    expect(tickets.verifyVnc(ticket, "joe@pve", "/vms/100", 5900)).toBe(false);
    expect(tickets.verifyVnc(ticket, "joe@pve!ci", "/vms/100")).toBe(false);
    expect(tickets.verifyVnc(ticket, "joe@pve!ci", "/vms/101", 5900)).toBe(false);
    expect(tickets.verifyVnc(await tickets.issue("joe@pve"), "joe@pve", "/", 1)).toBe(false);
    expect(tickets.verify(ticket)).toBeUndefined();
    await clock.advance(39_000);
    expect(tickets.verifyVnc(ticket, "joe@pve!ci", "/vms/100", 5900)).toBe(true);
    await clock.advance(1_000);
    expect(tickets.verifyVnc(ticket, "joe@pve!ci", "/vms/100", 5900)).toBe(false);
  });

  test("of SPICE stand in for a host name, and name VM and node", async () => {
    await tickets.issue("joe@pve");
    const ticket = tickets.issueSpice(100, "N1");
    expect(ticket).toMatch(/^pvespiceproxy:[0-9a-f]{8}:100:n1::[0-9a-f]{40}$/);
    expect(tickets.verifySpice(ticket)).toEqual({ vmid: 100, node: "n1" });
    expect(tickets.verifySpice(ticket.replace(":100:", ":101:"))).toBeUndefined();
    expect(tickets.verifySpice(ticket.replace(":n1:", ":n2:"))).toBeUndefined();
    expect(tickets.verifySpice("example.org")).toBeUndefined();
    await clock.advance(40_000);
    expect(tickets.verifySpice(ticket)).toBeUndefined();
  });

  test("survive the change of the key", async () => {
    await clock.advance(DAY - 10_000);
    const ticket = await tickets.issueVnc("joe@pve", "/vms/100");
    await clock.advance(20_000);
    await tickets.issue("joe@pve");
    expect(tickets.verifyVnc(ticket, "joe@pve", "/vms/100")).toBe(true);
  });
});

test("without keys nothing verifies", async () => {
  const empty = openSqliteStore({ path: ":memory:" });
  const none = await openRecords(empty, { prefix: "/gpve/", log });
  const { Tickets: Bare } = await import("./tickets.ts");
  const bare = new Bare({ keys: new TicketKeys({ records: none, sealer, clock }), clock });
  expect(bare.verify(await tickets.issue("joe@pve"))).toBeUndefined();
  expect(bare.verifyVnc(await tickets.issueVnc("joe@pve", "/"), "joe@pve", "/")).toBe(false);
  expect(bare.verifySpice(bare.issueSpice(100, "n1"))).toBeUndefined();
  expect(bare.verifyCsrf("joe@pve", tickets.issueCsrf("joe@pve"))).toBe(false);
  await none.close();
  await empty.close();
});
