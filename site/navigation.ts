/**
 * The pages of the site, by who reads them and by what a page is. A page of docs/ that is in no list fails a unit test:
 * add it to the list that its first paragraph names (tutorial, guide, reference, explanation).
 */

export interface Section {
  readonly name: string;
  /** The section's first page, relative to the folder of the site's pages. */
  readonly start: string;
  readonly tutorials: readonly string[];
  readonly howTo: readonly string[];
  readonly reference: readonly string[];
  readonly explanation: readonly string[];
}

/** The titles of a section's four groups, in the order of the navigation. */
export const groupTitles = {
  tutorials: 'Tutorials',
  howTo: 'How-to guides',
  reference: 'Reference',
  explanation: 'Explanation',
} as const;

/** The pages that the site writes itself. Every other page is a file of the repository with the same path. */
export const landingPages = ['index.md', 'runtime.md', 'operator.md'] as const;

export const sections: readonly Section[] = [
  {
    name: 'Runtime',
    start: 'runtime.md',
    tutorials: ['docs/getting-started.md', 'docs/writing-an-operator.md'],
    howTo: [
      'docs/testing.md',
      'docs/admission.md',
      'docs/generate.md',
      'docs/other-kinds.md',
      'docs/plan.md',
      'docs/recipes.md',
      'docs/recipes-opentelemetry.md',
      'docs/from-client-node.md',
      'docs/from-controller-runtime.md',
      'docs/versions.md',
    ],
    reference: [
      'docs/lower-layer.md',
      'packages/runtime/README.md',
      'packages/testing/README.md',
      'packages/cli/README.md',
      'packages/create-operator/README.md',
    ],
    explanation: ['docs/architecture.md', 'docs/ported-operators.md'],
  },
  {
    name: 'Operator',
    start: 'operator.md',
    tutorials: ['README.md'],
    howTo: ['docs/install.md', 'docs/troubleshooting.md', 'docs/alerts.md'],
    reference: [
      'docs/index.md',
      'docs/operations.md',
      'charts/echoperator/README.md',
      'docs/echo.md',
      'docs/scheduled-echo.md',
      'docs/pod-set.md',
      'docs/book-store.md',
      'docs/pet.md',
      'docs/pet-store.md',
      'docs/postgres-writer.md',
    ],
    explanation: ['docs/concepts.md', 'docs/high-availability.md', 'docs/crash-detection.md', 'SECURITY.md'],
  },
  {
    name: 'Project',
    start: 'CONTRIBUTING.md',
    tutorials: [],
    howTo: ['CONTRIBUTING.md', 'docs/releasing.md'],
    reference: ['docs/stability.md', 'CHANGELOG.md'],
    explanation: ['docs/benchmark.md', 'docs/performance.md'],
  },
];

export const pagesOf = ({ tutorials, howTo, reference, explanation }: Section): readonly string[] => [
  ...tutorials,
  ...howTo,
  ...reference,
  ...explanation,
];

/** The pages that the site takes from the repository. */
export const repositoryPages: readonly string[] = sections.flatMap(pagesOf);
