import { expect, test } from "vitest";
import { nameServersFor, resolvConf } from "./name-servers.ts";

const node = {
  listed: [
    "127.0.0.53",
    "10.0.0.53",
    "192.0.2.7",
    "fd00::53",
    "169.254.169.253",
    "100.80.0.1",
    "0.0.0.0",
    "x",
  ],
  own: ["192.0.2.7", "10.0.0.1"],
};

test("those of the node that its pods reach are asked, and none that is the node itself or of no outside", () => {
  expect(nameServersFor({ egress: "nat" }, () => node)).toEqual(["10.0.0.53"]);
  expect(resolvConf({ egress: "nat" }, () => node)).toBe("nameserver 10.0.0.53\n");
});

test("nobody is asked where pods do not go out", () => {
  expect(nameServersFor({}, () => node)).toEqual([]);
  expect(resolvConf({}, () => node)).toBe("");
});
