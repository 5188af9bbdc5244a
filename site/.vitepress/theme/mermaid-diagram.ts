import { useData } from 'vitepress';
import { defineComponent, h, onMounted, ref, useId, watch } from 'vue';

/** A diagram that the browser draws, again when the reader switches between light and dark. */
export const MermaidDiagram = defineComponent({
  props: { code: { type: String, required: true } },
  setup({ code }) {
    const { isDark, page } = useData();
    const id = `diagram-${useId()}`;
    const svg = ref('');
    const draw = async (): Promise<void> => {
      // Most pages have no diagram, so only those that have one load the library.
      const { default: mermaid } = await import('mermaid');
      mermaid.initialize({ startOnLoad: false, theme: isDark.value ? 'dark' : 'neutral' });
      svg.value = (await mermaid.render(id, decodeURIComponent(code))).svg;
    };
    onMounted(async () => {
      await draw();
      watch(isDark, draw);
    });
    return () =>
      h('div', {
        class: 'diagram',
        tabindex: 0,
        role: 'img',
        'aria-label': `Diagram of the page ${page.value.title}`,
        innerHTML: svg.value,
      });
  },
});
