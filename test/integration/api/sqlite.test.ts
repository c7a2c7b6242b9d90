import { afterAll } from "vitest";
import { startGpve, type Gpve } from "../../support/gpve.ts";
import { defineApiSuite } from "./suite.ts";

let gpve: Gpve | undefined;
defineApiSuite(async () => {
  gpve = await startGpve();
  return { credentials: gpve.credentials };
});
afterAll(() => gpve?.stop());
