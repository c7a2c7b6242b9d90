// Writes docs/reference/api-v1.md from the declarations. A test fails when it is out of date.
import { writeFileSync } from "node:fs";
import { referencePage } from "@gpve/contracts/v1/reference-page.ts";

writeFileSync("docs/reference/api-v1.md", referencePage());
