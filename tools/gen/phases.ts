// Writes docs/reference/vm-phases.md from the table. A test fails when it is out of date.
import { writeFileSync } from "node:fs";
import { vmPhasesPage } from "@gpve/domain/phase/phases-page.ts";

writeFileSync("docs/reference/vm-phases.md", vmPhasesPage());
