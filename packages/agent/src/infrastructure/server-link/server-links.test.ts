import { silentLogger } from "@gpve/kit/logger.ts";
import { expect, test } from "vitest";
import { ServerLinks } from "./server-links.ts";

function world() {
  const said: string[] = [];
  const links = new ServerLinks({
    log: silentLogger,
    open: (endpoint) => {
      const say = (what: string) => void said.push(`${endpoint} ${what}`);
      return {
        endpoint,
        start: () => say("starts"),
        reopen: () => say("reopens"),
        goodbye: async () => say("goodbye"),
        close: async () => say("closes"),
      };
    },
  });
  const take = () => said.splice(0);
  return { links, take, endpoints: () => links.all().map(({ endpoint }) => endpoint) };
}

test("a server that comes later gets a line at once, one that left loses its own, others keep theirs", () => {
  const { links, take, endpoints } = world();
  links.use(["a", "b"]);
  expect(take()).toEqual([]);
  links.start();
  expect(take()).toEqual(["a starts", "b starts"]);
  links.use(["b", "c"]);
  expect(take()).toEqual(["a closes", "c starts"]);
  expect(endpoints()).toEqual(["b", "c"]);
  links.reopen();
  expect(take()).toEqual(["b reopens", "c reopens"]);
});

test("all are told before the lines end, and none is opened after", async () => {
  const { links, take } = world();
  links.use(["a", "b"]);
  links.start();
  take();
  await links.goodbye();
  await links.close();
  expect(take()).toEqual(["a goodbye", "b goodbye", "a closes", "b closes"]);
  links.use(["a", "b", "c"]);
  expect(take()).toEqual([]);
});
