import { expect, test } from "vitest";
import { elsewhereRoutes, forgottenPlaces, placeCollection } from "./cluster-places.ts";

const [demo, shop] = ["demo.default.vc.gpve", "web.shop.vc.gpve"];
const places = [
  { serverName: demo, node: "n2", address: "10.0.0.2" },
  { serverName: shop, node: "n1", address: "10.0.0.1" },
];
const at = (host: string) => ({ host, port: 16_442 });
const nothing = { places, own: [], doors: new Map<string, number>(), sharedPort: 16_442 };

test("a node that had a cluster leads on from the port that it had there", () => {
  const doors = new Map([[demo, 16_443]]);
  expect(elsewhereRoutes({ ...nothing, node: "n1", doors })).toEqual([
    { serverName: demo, port: 16_443, target: at("10.0.0.2") },
  ]);
});

test("a node that has clusters knows the others by name; its own ports are its own clusters'", () => {
  const own = [{ serverName: "x.default.vc.gpve", port: 16_443 }];
  expect(elsewhereRoutes({ ...nothing, node: "n3", own, doors: new Map([[demo, 16_443]]) })).toEqual([
    { serverName: demo, target: at("10.0.0.2") },
    { serverName: shop, target: at("10.0.0.1") },
  ]);
});

test("nobody is led to where a cluster is still, nor from a node that nobody comes to", () => {
  const own = [{ serverName: demo, port: 16_443 }];
  expect(elsewhereRoutes({ ...nothing, node: "n1", own })).toEqual([]);
  expect(elsewhereRoutes({ ...nothing, node: "n3" })).toEqual([]);
});

test("what is missing for a while is forgotten, what was just noted is not", () => {
  const former = [
    { serverName: "gone.default.vc.gpve", network: 1, at: 0 },
    { serverName: "new.default.vc.gpve", network: 2, at: 600_000 },
    { serverName: demo, network: 3, at: 0 },
  ];
  expect(forgottenPlaces(former, places, 600_001)).toEqual([former[0]]);
});

test("a place of another shape is refused", () => {
  expect(placeCollection.decode(places[0])).toEqual(places[0]);
  expect(() => placeCollection.decode({ serverName: 3 })).toThrow("a shape this version does not know");
});
